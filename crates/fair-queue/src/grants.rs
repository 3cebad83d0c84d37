//! The attempts that are out.

/// Of each attempt that is out: when it went, and what is wanted to give its turns back.
///
/// There are never more than a handful at once. What they need is kept here so that no request that waits is larger for
/// it; places are used again, and with them the memory of their lists.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    places: Vec<Grant>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Grant {
    event: u64,
    /// For each gate that the request demands, in its order: the total weight at which the turn was charged there; zero
    /// if it was not.
    charged_at: Vec<u64>,
}

// === impl Grants ===

impl Grants {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// An attempt goes out at this event.
    pub(crate) fn open(&mut self, event: u64) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Grant::default());
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        self.places[place as usize].event = event;
        place
    }

    /// Notes at what total weight its turn was charged at the next of its gates.
    pub(crate) fn charge(&mut self, place: u32, total: u64) {
        self.places[place as usize].charged_at.push(total);
    }

    /// The total weight at which its turn was charged at the gate that is `at` in the order of its demands.
    pub(crate) fn charged_at(&self, place: u32, at: usize) -> u64 {
        self.places[place as usize].charged_at.get(at).copied().unwrap_or(0)
    }

    /// The attempt is over; what is returned is the event at which it went out.
    pub(crate) fn close(&mut self, place: u32) -> u64 {
        self.free.push(place);
        let grant = &mut self.places[place as usize];
        grant.charged_at.clear();
        grant.event
    }
}
