use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

/// The name of a database, metric or tag, or the value of a tag: bytes, usually UTF-8.
///
/// It compares with strings, and prints as text; bytes that are no UTF-8 print as U+FFFD.
///
/// ```
/// let name = tickmesh::Name::from("host");
/// assert_eq!(name, "host");
/// assert_eq!(name.to_string(), "host");
/// assert_eq!(name.as_str(), Some("host"));
/// assert_eq!(name.as_bytes(), b"host");
/// assert_eq!(tickmesh::Name::from(&name), name);
/// assert_eq!(tickmesh::Name::from([0xff]).as_str(), None);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name(Vec<u8>);

impl Name {
    /// Returns its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns it as text, unless it is no UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl<T: AsRef<[u8]>> From<T> for Name {
    fn from(bytes: T) -> Self {
        Self(bytes.as_ref().to_vec())
    }
}

impl From<&Name> for Name {
    fn from(name: &Name) -> Self {
        name.clone()
    }
}

impl From<Name> for Vec<u8> {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
