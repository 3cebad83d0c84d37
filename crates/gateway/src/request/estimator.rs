//! How the tokens of a prompt are counted before a backend has counted them.

/// How the tokens of a prompt are counted before a backend has counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Estimator {
    /// By the length of its text.
    #[default]
    Bytes,
}
