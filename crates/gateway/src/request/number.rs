//! Numbers of a JSON text, at the start of what is given.

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x80 * ONES;

/// Bytes of the number that `text` starts with, if it does.
pub(super) fn len(text: &[u8]) -> Option<usize> {
    let mut at = usize::from(text.first() == Some(&b'-'));
    let whole = digits(text, at)?;
    // No zero in front.
    if text.get(at) == Some(&b'0') && whole > 1 {
        return None;
    }
    at += whole;
    if text.get(at) == Some(&b'.') {
        at += 1;
        at += digits(text, at)?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        at += digits(text, at)?;
    }
    Some(at)
}

/// How many digits there are at a place, if there are any.
#[inline]
fn digits(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    (digits > 0).then_some(digits)
}

/// Bytes of a whole number that needs no closer look, and of the comma behind it; none if `text` starts with anything else.
#[inline]
pub(super) fn small(text: &[u8]) -> usize {
    let Some(word) = text.first_chunk::<8>() else { return 0 };
    // A byte is a digit if its upper half is 3, and stays so when 6 is added to it.
    let word = u64::from_le_bytes(*word);
    let upper = |word: u64| word & (0xf0 * ONES);
    let others = (upper(word) ^ (0x30 * ONES)) | (upper(word.wrapping_add(0x06 * ONES)) ^ (0x30 * ONES));
    let digits = others.trailing_zeros() / 8;
    let is_small = (1..8).contains(&digits)
        && (word >> (8 * digits)) & 0xff == u64::from(b',')
        && (digits == 1 || word & 0xff != u64::from(b'0'));
    if is_small { digits as usize + 1 } else { 0 }
}

/// Whole numbers that stand in a row, each with a comma behind it and perhaps spaces before it: how many `text` starts
/// with, and their bytes. There may be more; these need no closer look.
///
/// They are read in words of eight bytes, however long each of them is. In what follows, the top bits of a word's bytes
/// tell something of each.
pub(super) fn row(text: &[u8]) -> (usize, usize) {
    // Which bytes of a word without top bits are this one.
    let are = |word: u64, byte: u8| !(word ^ (u64::from(byte) * ONES)).wrapping_add(0x7f * ONES) & TOPS;
    let (words, _) = text.as_chunks::<8>();
    let (mut count, mut passed) = (0, 0);
    // Of the byte before a word: whether it parts numbers, and whether it is a zero that starts one.
    let (mut parts_before, mut zero_before) = (0x80, 0);
    for word in words {
        let word = u64::from_le_bytes(*word);
        let digits = word.wrapping_add(0x50 * ONES) & !word.wrapping_add(0x46 * ONES) & TOPS;
        let (commas, spaces) = (are(word, b','), are(word, b' '));
        let parts = commas | spaces;
        let behind_parts = parts << 8 | parts_before;
        let zeros = are(word, b'0') & behind_parts;
        let wrong = (word & TOPS)
            | ((digits | parts) ^ TOPS)
            | (commas & behind_parts)
            | (spaces & !behind_parts)
            | (digits & (zeros << 8 | zero_before));
        if wrong != 0 {
            break;
        }
        (parts_before, zero_before) = (parts >> 56, zeros >> 56);
        count += ((commas >> 7).wrapping_mul(ONES) >> 56) as usize;
        passed += 8;
    }
    // The last number may go on.
    let passed = text.get(..passed).unwrap_or_default();
    (count, passed.iter().rposition(|byte| *byte == b',').map_or(0, |comma| comma + 1))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// What [`row`] promises: numbers that are read one by one.
    fn numbers(text: &[u8]) -> (usize, usize) {
        let spaces = |at: usize| text[at..].iter().take_while(|byte| **byte == b' ').count();
        let (mut count, mut at) = (0, spaces(0));
        while let Some(number) = text.get(at..).and_then(len)
            && text[at..at + number].iter().all(u8::is_ascii_digit)
            && text.get(at + number) == Some(&b',')
        {
            at += number + 1;
            count += 1;
            at += spaces(at);
        }
        (count, at)
    }

    #[test]
    fn rows_of_numbers_are_read_in_words() {
        let ids = |parted: &str| (0..1_000).map(|id| format!("{}{parted}", id * id)).collect::<String>();
        for parted in [",", ", ", ",  "] {
            let text = ids(parted);
            let (count, taken) = row(text.as_bytes());
            assert!(count > 990 && taken > text.len() - 20, "{count} {taken}");
        }
        for text in ["01,2,3,4,5,6,7", "1,2,3,04,5,6,7,", "1,2,3,0,04,5,6,", "1234567,01234567,"] {
            let (count, taken) = row(text.as_bytes());
            assert!(taken <= text.find(",0").unwrap_or(0) + 3 && count <= 4, "{text} {count} {taken}");
        }
        assert_eq!(row(b"1234567890123456"), (0, 0));
    }

    proptest! {
        #[test]
        fn a_row_is_made_of_numbers(
            pieces in vec(
                prop_oneof![
                    20 => "(0|[1-9][0-9]{0,12}), ?", 1 => "0[0-9]{1,3},", 1 => " ?,", 1 => "[0-9 ,.e+-]{1,3}",
                    1 => any::<u8>().prop_map(|byte| char::from(byte).to_string()),
                ],
                0..40,
            ),
        ) {
            let text = pieces.concat();
            let (count, taken) = row(text.as_bytes());
            let (whole, end) = numbers(text.as_bytes());
            prop_assert!(taken <= end && count <= whole, "{} {} {} {}", count, taken, whole, end);
            let read = text.as_bytes().get(..taken).unwrap();
            prop_assert_eq!(numbers(read).0, count);
            prop_assert!(taken == 0 || read.ends_with(b","));
            // Nothing is left for a closer look but what is around the end of a row.
            prop_assert!(end - taken < 8 + 16 + 16, "{} {}", taken, end);
        }
    }
}
