//! Random sequences of requests that reserve, settle and leave: every bucket stands exactly where the real usage puts it.

use fairlane_gateway::{admission::Permit, usage::Ending};
use proptest::prelude::*;

use crate::{
    house::{BUDGET, BURST, House, Kept, MODEL_BUDGET, nobody_waits, reservation},
    settling::answered,
};

#[derive(Clone, Debug)]
enum Step {
    Reserve {
        prompt: u64,
        output: u64,
    },
    /// The request that is open at this place, round the end, comes to an end.
    End {
        which: usize,
        how: How,
    },
    Advance {
        millis: u64,
    },
}

#[derive(Clone, Copy, Debug)]
enum How {
    Unsent,
    Unanswered,
    Failed,
    Used(u64),
    Seen(u64),
    Abandoned,
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![
        Just(How::Unsent),
        Just(How::Unanswered),
        Just(How::Failed),
        (0..900_u64).prop_map(How::Used),
        (0..400_u64).prop_map(How::Seen),
        Just(How::Abandoned),
    ];
    prop_oneof![
        4 => (0..200_u64, 0..400_u64).prop_map(|(prompt, output)| Step::Reserve { prompt, output }),
        4 => (any::<usize>(), how).prop_map(|(which, how)| Step::End { which, how }),
        2 => (1..300_u64).prop_map(|millis| Step::Advance { millis }),
    ]
}

/// A bucket in the simplest form: a number that goes up and down.
struct Level {
    /// In parts of a unit, one of which flows in each millisecond.
    parts: i64,
    parts_per_unit: i64,
    capacity: u64,
}

impl Level {
    fn full(capacity: u64, parts_per_unit: i64) -> Self {
        let mut level = Self { parts: 0, parts_per_unit, capacity };
        level.parts = level.most();
        level
    }

    fn most(&self) -> i64 {
        i64::try_from(self.capacity).unwrap() * self.parts_per_unit
    }

    fn flow(&mut self, millis: u64) {
        self.parts = (self.parts + i64::try_from(millis).unwrap()).min(self.most());
    }

    fn holds(&self, amount: u64) -> bool {
        self.parts >= i64::try_from(amount).unwrap() * self.parts_per_unit
    }

    fn give(&mut self, amount: i64) {
        self.parts = (self.parts + amount * self.parts_per_unit).min(self.most());
    }

    fn units(&self) -> i64 {
        self.parts.div_euclid(self.parts_per_unit)
    }
}

struct Open {
    permit: Permit,
    prompt: u64,
    reserved: u64,
}

/// Ends a request, and tells by how much its requests and its tokens are to be given back.
fn end(open: Open, how: How) -> (i64, i64) {
    let Open { permit, prompt, reserved } = open;
    let spent = match how {
        How::Unsent => {
            drop(permit);
            return (1, i64::try_from(reserved).unwrap());
        }
        How::Unanswered => {
            permit.keep_charges();
            permit.settle(Ending::Unanswered);
            0
        }
        How::Failed => {
            permit.keep_charges();
            permit.settle(answered(503, Some(77), 5));
            0
        }
        How::Used(tokens) => {
            permit.keep_charges();
            permit.settle(answered(200, Some(tokens), 0));
            tokens
        }
        How::Seen(tokens) => {
            permit.keep_charges();
            permit.settle(answered(200, None, tokens));
            prompt + tokens
        }
        How::Abandoned => {
            permit.keep_charges();
            drop(permit);
            prompt
        }
    };
    (0, i64::try_from(reserved).unwrap() - i64::try_from(spent).unwrap())
}

async fn replay(kept: Kept, steps: Vec<Step>) {
    let house = House::new(kept, nobody_waits());
    let mut levels = [Level::full(BURST, 10), Level::full(BUDGET, 1), Level::full(MODEL_BUDGET, 1)];
    let mut open: Vec<Open> = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        match step {
            Step::Reserve { prompt, output } => {
                let reserved = prompt + output;
                let fits = levels.iter().zip([1, reserved, reserved]).all(|(level, cost)| level.holds(cost));
                let admitted = house.admit(house.ask(1, reservation(prompt, output))).await;
                assert_eq!(admitted.is_ok(), fits, "step {at}: {reserved} tokens");
                if let Ok(permit) = admitted {
                    for (level, cost) in levels.iter_mut().zip([1, reserved, reserved]) {
                        level.give(-i64::try_from(cost).unwrap());
                    }
                    open.push(Open { permit, prompt, reserved });
                }
            }
            Step::End { which, how } if !open.is_empty() => {
                let ended = open.swap_remove(which % open.len());
                let (requests, tokens) = end(ended, how);
                for (level, amount) in levels.iter_mut().zip([requests, tokens, tokens]) {
                    level.give(amount);
                }
            }
            Step::End { .. } => {}
            Step::Advance { millis } => {
                tokio::time::advance(std::time::Duration::from_millis(millis)).await;
                for level in &mut levels {
                    level.flow(millis);
                }
            }
        }
        let expected = levels.each_ref().map(Level::units);
        assert_eq!(house.left().await, expected, "{kept:?} after step {at}");
    }
}

proptest! {
    // More by PROPTEST_CASES.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_bucket_stands_where_the_real_usage_puts_it(
        steps in prop::collection::vec(step(), 1..60),
        far in any::<bool>(),
    ) {
        let kept = if far { Kept::FarAway } else { Kept::Here };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(replay(kept, steps));
    }
}
