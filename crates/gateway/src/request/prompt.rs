//! What of a prompt is text: a walk over the part of a body that holds it.
//!
//! The walk does not judge. A member counts whether its name stands once or twice and in whatever case, so that the size is
//! at least that of any reading of the prompt; what a backend would not understand, it will refuse itself.

use super::{
    keys::Member,
    scan::{NotJson, Scan},
    string::Quoted,
};

/// Deeper than any prompt; below it everything counts as text, as it stands.
const MAX_DEPTH: usize = 24;

/// Text of a prompt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text<'a> {
    /// A string.
    Quoted(Quoted<'a>),
    /// JSON that the model gets to see as it stands.
    Json(&'a [u8]),
}

/// Whatever is told of a prompt.
pub(super) trait Sink {
    /// Text.
    fn text(&mut self, text: Text<'_>);
    /// The ids of so many tokens.
    fn ids(&mut self, count: u64);
    /// A picture, a sound or a file.
    fn media(&mut self);
}

/// Takes the value at `scan`, which is text, or messages and items with text in them, and tells `sink` of it.
pub(super) fn walk(scan: &mut Scan<'_>, sink: &mut impl Sink) -> Result<(), NotJson> {
    Walk { scan, sink }.value(Role::Text, 0)
}

/// Takes the value at `scan`, which is JSON that the model gets to see as it stands, or text, and tells `sink` of it.
pub(super) fn show(scan: &mut Scan<'_>, sink: &mut impl Sink) -> Result<(), NotJson> {
    Walk { scan, sink }.shown()
}

/// Takes the value at `scan`: how many prompts there are in it, of which a string is one, and a list of ids.
pub(super) fn count_prompts(scan: &mut Scan<'_>) -> Result<u64, NotJson> {
    let mut prompts = 0;
    if scan.peek() == b'[' {
        let mut more = scan.open(b']');
        while more {
            match scan.peek() {
                b'0'..=b'9' if scan.small_numbers() > 0 => continue,
                first => prompts += u64::from(matches!(first, b'"' | b'[')),
            }
            scan.skip()?;
            more = scan.more(b']')?;
        }
    } else {
        scan.skip()?;
    }
    Ok(prompts.max(1))
}

/// What the strings of a value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Text.
    Text,
    /// Names of other things, but for members that say they are text.
    Parts,
}

struct Walk<'s, 'a, S> {
    scan: &'s mut Scan<'a>,
    sink: &'s mut S,
}

impl<S: Sink> Walk<'_, '_, S> {
    fn value(&mut self, role: Role, depth: usize) -> Result<(), NotJson> {
        match self.scan.peek() {
            b'"' => {
                let quoted = self.scan.string()?;
                if role == Role::Text {
                    self.sink.text(Text::Quoted(quoted));
                }
            }
            b'[' | b'{' if depth >= MAX_DEPTH => {
                let json = self.scan.skip()?;
                self.sink.text(Text::Json(json));
            }
            b'[' => self.list(role, depth + 1)?,
            b'{' => self.object(depth + 1)?,
            first => self.scan.simple(first)?,
        }
        Ok(())
    }

    fn list(&mut self, role: Role, depth: usize) -> Result<(), NotJson> {
        let mut more = self.scan.open(b']');
        while more {
            let first = self.scan.peek();
            if matches!(first, b'-' | b'0'..=b'9') {
                let ids = self.scan.small_numbers();
                if role == Role::Text {
                    self.sink.ids(ids.max(1) as u64);
                }
                if ids > 0 {
                    continue;
                }
                self.scan.simple(first)?;
            } else {
                self.value(role, depth)?;
            }
            more = self.scan.more(b']')?;
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), NotJson> {
        let mut has_media = false;
        let mut more = self.scan.open(b'}');
        while more {
            let name = self.scan.name()?;
            match Member::of(&name) {
                Member::Parts => self.value(Role::Parts, depth)?,
                Member::Json => self.shown()?,
                Member::Source if self.scan.peek() == b'{' => has_media |= self.source(depth + 1)?,
                // The source of a piece of text is its address.
                Member::Text | Member::Source => self.value(Role::Text, depth)?,
                Member::Media => has_media |= self.scan.skip()? != b"null",
                Member::Aside => {
                    self.scan.skip()?;
                }
            }
            more = self.scan.more(b'}')?;
        }
        // A part is one medium, in however many ways it is given.
        if has_media {
            self.sink.media();
        }
        Ok(())
    }

    /// Takes the source that starts here: whether it is a medium, and not text or parts, which have been told by now.
    fn source(&mut self, depth: usize) -> Result<bool, NotJson> {
        let (mut data, mut is_text, mut has_parts) = (None::<Quoted<'_>>, false, false);
        let mut more = self.scan.open(b'}');
        while more {
            let name = self.scan.name()?;
            match self.scan.peek() {
                b'"' if name.is("type") => is_text |= self.scan.string()?.is("text"),
                b'"' if name.is("data") => {
                    let given = self.scan.string()?;
                    data = data.filter(|data| data.len > given.len).or(Some(given));
                }
                b'"' | b'[' | b'{' if name.is("content") => {
                    has_parts = true;
                    self.value(Role::Text, depth)?;
                }
                _ => {
                    self.scan.skip()?;
                }
            }
            more = self.scan.more(b'}')?;
        }
        if let Some(data) = data.filter(|_| is_text) {
            self.sink.text(Text::Quoted(data));
        }
        Ok(!is_text && !has_parts)
    }

    fn shown(&mut self) -> Result<(), NotJson> {
        match self.scan.peek() {
            b'"' => {
                let quoted = self.scan.string()?;
                self.sink.text(Text::Quoted(quoted));
            }
            b'[' | b'{' => {
                let json = self.scan.skip()?;
                self.sink.text(Text::Json(json));
            }
            first => self.scan.simple(first)?,
        }
        Ok(())
    }
}
