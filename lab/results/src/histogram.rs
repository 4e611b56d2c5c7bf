//! Latency histograms, stored as JSON.

use base64::Engine as _;
use hdrhistogram::serialization::{Deserializer as Reader, Serializer as _, V2Serializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Counts of values to three significant digits (HdrHistogram), stored as its standard V2 encoding
/// in base64.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(pub hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        // 3 is within the crate's range of 0..=5, so this cannot fail.
        Histogram(hdrhistogram::Histogram::new(3).expect("3 significant digits are valid"))
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.0, &mut bytes)
            .map_err(|error| serde::ser::Error::custom(format!("histogram: {error:?}")))?;
        serializer.serialize_str(&base64::engine::general_purpose::STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(serde::de::Error::custom)?;
        Reader::new()
            .deserialize(&mut bytes.as_slice())
            .map(Histogram)
            .map_err(|error| serde::de::Error::custom(format!("histogram: {error:?}")))
    }
}
