//! As much of the Redis protocol as it takes to tell where a command or a reply ends, and what a command is called.
//!
//! Both versions, RESP2 and RESP3: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What was read is not the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotResp;

/// Cuts a stream of bytes into frames: commands, or replies.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    stream: R,
    read: BytesMut,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self { stream, read: BytesMut::new() }
    }

    /// The next whole frame; none once the stream has ended, failed, or turned into something else.
    ///
    /// # Cancel safety
    ///
    /// Nothing that was read is lost.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(length) = frame_length(&self.read).ok()? {
                return Some(self.read.split_to(length).freeze());
            }
            if self.stream.read_buf(&mut self.read).await.ok()? == 0 {
                return None;
            }
        }
    }
}

/// How long the first frame is, in bytes; none while its end has not been read.
fn frame_length(bytes: &[u8]) -> Result<Option<usize>, NotResp> {
    let mut end = 0;
    let mut missing = 1_usize;
    while missing > 0 {
        let Some((kind, number, next)) = line(bytes, end)? else { return Ok(None) };
        missing -= 1;
        end = next;
        let count = || number.ok_or(NotResp).map(|count| usize::try_from(count).unwrap_or(0));
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
            // A negative length is a null, without anything behind it.
            b'$' | b'!' | b'=' if number.is_some_and(|length| length < 0) => {}
            b'$' | b'!' | b'=' => end += count()? + 2,
            b'*' | b'~' | b'>' => missing += count()?,
            b'%' => missing += 2 * count()?,
            // Attributes stand before what they belong to.
            b'|' => missing += 2 * count()? + 1,
            _ => return Err(NotResp),
        }
        if bytes.len() < end {
            return Ok(None);
        }
    }
    Ok(Some(end))
}

/// A line's kind, its number if it has one, and where the next begins.
fn line(bytes: &[u8], start: usize) -> Result<Option<(u8, Option<i64>, usize)>, NotResp> {
    let Some(rest) = bytes.get(start..).filter(|rest| !rest.is_empty()) else { return Ok(None) };
    if !rest[0].is_ascii_punctuation() {
        return Err(NotResp);
    }
    let Some(length) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let number = std::str::from_utf8(&rest[1..length]).ok().and_then(|text| text.parse().ok());
    Ok(Some((rest[0], number, start + length + 2)))
}

/// The name of a command, in upper case.
pub(crate) fn command_name(frame: &[u8]) -> String {
    let name = frame.split(|byte| *byte == b'\n').nth(2).unwrap_or_default();
    String::from_utf8_lossy(name).trim_end().to_ascii_uppercase()
}

/// Whether the server said this of its own accord, so that it answers no command.
pub(crate) fn is_push(frame: &[u8]) -> bool {
    frame.first() == Some(&b'>')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_kind_end_where_they_end() {
        let frames = [
            "+OK\r\n",
            "-ERR no\r\n",
            ":42\r\n",
            "$5\r\na\r\nbc\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
            "*2\r\n*1\r\n:1\r\n*2\r\n+a\r\n$0\r\n\r\n",
            "_\r\n",
            "#t\r\n",
            ",1.5\r\n",
            "%1\r\n+k\r\n*1\r\n:1\r\n",
            "|1\r\n+k\r\n:1\r\n:2\r\n",
            ">2\r\n+invalidate\r\n_\r\n",
            "=7\r\ntxt:abc\r\n",
        ];
        for frame in frames {
            let followed = format!("{frame}+next\r\n");
            assert_eq!(frame_length(followed.as_bytes()), Ok(Some(frame.len())), "{frame:?}");
            for end in 0..frame.len() {
                assert_eq!(frame_length(&frame.as_bytes()[..end]), Ok(None), "{frame:?} cut at {end}");
            }
        }
    }

    #[test]
    fn what_is_not_the_protocol_is_told() {
        for text in ["PING\r\n", "\u{1}", "?1\r\n", "$x\r\n", "*y\r\n"] {
            assert_eq!(frame_length(text.as_bytes()), Err(NotResp), "{text:?}");
        }
    }

    #[test]
    fn commands_have_names() {
        assert_eq!(command_name(b"*2\r\n$7\r\nevalsha\r\n$1\r\nk\r\n"), "EVALSHA");
        assert_eq!(command_name(b"*0\r\n"), "");
        assert!(is_push(b">1\r\n+a\r\n") && !is_push(b"+a\r\n"));
    }

    #[tokio::test]
    async fn a_stream_is_cut_into_frames() {
        let mut frames = Frames::new(&b"+a\r\n:1\r\n$3\r\nab"[..]);
        assert_eq!(frames.next().await.as_deref(), Some(&b"+a\r\n"[..]));
        assert_eq!(frames.next().await.as_deref(), Some(&b":1\r\n"[..]));
        assert_eq!(frames.next().await, None, "the last is cut");
    }
}
