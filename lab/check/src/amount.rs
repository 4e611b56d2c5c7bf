//! A number of the budget file: `1200`, or bytes with a unit such as `"64 KiB"`.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// A count, or a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount(pub u64);

const UNITS: [(&str, u64); 11] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("B", 1),
    ("", 1),
];

fn parse(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit = text[digits..].trim();
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    text[..digits].parse::<u64>().ok()?.checked_mul(*factor)
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number that is not negative, or bytes such as \"64 KiB\"")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        let unexpected = || E::invalid_value(serde::de::Unexpected::Signed(number), &self);
        u64::try_from(number).map(Amount).map_err(|_| unexpected())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        let unexpected = || E::invalid_value(serde::de::Unexpected::Str(text), &self);
        parse(text).map(Amount).ok_or_else(unexpected)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn bytes_have_units() {
        let read = ["12", "64 KiB", "64K", "2MiB", "3 kB", "1 GB", "7 B"].map(parse);
        let wanted = [12, 65536, 65536, 2 << 20, 3000, 1_000_000_000, 7].map(Some);
        assert_eq!(read, wanted);
        for wrong in ["", "KiB", "-1", "1.5 KiB", "64 KB", "99999999999999999999", "9999999999999G"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
