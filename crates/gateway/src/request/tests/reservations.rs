//! From what a request asks for to what is taken for it.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;

const SETTINGS: TokenSettings = TokenSettings {
    default_output: NonZeroU32::new(512).unwrap(),
    bytes_per_token: NonZeroU32::new(4).unwrap(),
};

fn ask(text_bytes: u64, media: u64, per_answer: Option<u64>, answers: u64) -> TokenAsk {
    TokenAsk {
        prompt: PromptSize { text_bytes, tokens: 0, media },
        output: OutputCap { per_answer, answers },
        usage: StreamUsage::Unasked,
    }
}

#[track_caller]
fn check(ask: &TokenAsk, fits: Option<u64>, (prompt_estimate, output, assumed): (u64, u64, bool)) {
    let expected = Reservation { prompt_estimate, output, total: prompt_estimate + output, assumed };
    assert_eq!(reserve(ask, &SETTINGS, fits), expected, "{ask:?} {fits:?}");
}

#[test]
fn a_reservation_is_the_prompt_and_what_may_be_answered() {
    check(&ask(0, 0, Some(0), 1), None, (0, 0, false));
    check(&ask(1, 0, Some(10), 1), None, (1, 10, false));
    check(&ask(8, 0, Some(10), 3), None, (2, 30, false));
    check(&ask(9, 0, None, 1), None, (3, 512, true));
    check(&ask(9, 0, None, 2), None, (3, 1_024, true));
    check(&ask(9, 2, None, 1), None, (3 + 2 * MEDIA_TOKENS, 512, true));
    let ids = PromptSize { text_bytes: 5, tokens: 7, media: 0 };
    check(&TokenAsk { prompt: ids, ..ask(0, 0, OutputCap::NONE.per_answer, 1) }, None, (9, 0, false));
}

#[test]
fn only_what_is_assumed_is_cut_down_to_what_fits() {
    check(&ask(40, 0, None, 1), Some(100), (10, 90, true));
    check(&ask(40, 0, None, 1), Some(10), (10, 0, true));
    check(&ask(40, 0, None, 1), Some(9), (10, 0, true));
    check(&ask(40, 0, Some(500), 1), Some(100), (10, 500, false));
    check(&ask(40, 0, Some(90), 2), Some(100), (10, 180, false));
    // Media before output, and never a cap.
    check(&ask(40, 1, None, 1), Some(100), (100, 0, true));
    check(&ask(40, 1, Some(50), 1), Some(100), (50, 50, false));
    check(&ask(40, 1, Some(500), 1), Some(100), (10, 500, false));
}

proptest! {
    #[test]
    fn nothing_overflows_and_assumptions_fit(
        text_bytes: u64, tokens: u64, media: u64, per_answer: Option<u64>, answers: u64, fits: Option<u64>,
        default_output: NonZeroU32, bytes_per_token: NonZeroU32,
    ) {
        let prompt = PromptSize { text_bytes, tokens, media };
        let ask = TokenAsk { prompt, ..ask(0, 0, per_answer, answers) };
        let reserved = reserve(&ask, &TokenSettings { default_output, bytes_per_token }, fits);
        prop_assert_eq!(reserved.total, reserved.prompt_estimate + reserved.output);
        prop_assert!(reserved.total <= MOST_TOKENS);
        let stated = (u128::from(text_bytes).div_ceil(u128::from(bytes_per_token.get())) + u128::from(tokens))
            .min(u128::from(MOST_TOKENS));
        prop_assert!(u128::from(reserved.prompt_estimate) >= stated);
        if let Some(fits) = fits.filter(|_| reserved.assumed) {
            prop_assert!(reserved.total <= fits || u128::from(reserved.total) == stated);
        }
    }
}
