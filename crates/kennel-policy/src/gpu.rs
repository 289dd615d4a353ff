//! Which graphics cards a command may use (`files.gpus`, `--gpu`).

use std::fmt;
use std::str::FromStr;

use crate::origin::Origin;

/// Who made a card: the device nodes that it needs follow from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GpuMaker {
    /// NVIDIA, with its own driver.
    Nvidia,
    /// AMD, with amdgpu and ROCm's kfd.
    Amd,
    /// Intel, with i915 or xe.
    Intel,
}

impl GpuMaker {
    /// All.
    pub const ALL: [GpuMaker; 3] = [GpuMaker::Nvidia, GpuMaker::Amd, GpuMaker::Intel];

    /// How people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GpuMaker::Nvidia => "nvidia",
            GpuMaker::Amd => "amd",
            GpuMaker::Intel => "intel",
        }
    }
}

/// Cards that somebody chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GpuChoice {
    /// Of this maker; `None` for any.
    pub maker: Option<GpuMaker>,
    /// The one with this number among them, by their places on the bus, as `nvidia-smi` counts; `None` for all.
    pub number: Option<u32>,
}

/// A choice of cards, and who made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuRule {
    /// Which.
    pub choice: GpuChoice,
    /// Where it was set.
    pub origin: Origin,
}

/// What is no choice of cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write `all`, a number, or a maker (`nvidia`, `amd`, `intel`), which may have a number: `nvidia:0`")]
pub struct NoGpuChoice;

impl FromStr for GpuChoice {
    type Err = NoGpuChoice;

    fn from_str(text: &str) -> Result<GpuChoice, NoGpuChoice> {
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().map_err(|_| NoGpuChoice),
            false => Err(NoGpuChoice),
        };
        let maker =
            |text: &str| GpuMaker::ALL.into_iter().find(|maker| maker.name() == text).ok_or(NoGpuChoice);
        match text.split_once(':') {
            _ if text == "all" => Ok(GpuChoice { maker: None, number: None }),
            Some((name, text)) => Ok(GpuChoice { maker: Some(maker(name)?), number: Some(number(text)?) }),
            None => match number(text) {
                Ok(number) => Ok(GpuChoice { maker: None, number: Some(number) }),
                Err(_) => Ok(GpuChoice { maker: Some(maker(text)?), number: None }),
            },
        }
    }
}

impl fmt::Display for GpuChoice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.maker, self.number) {
            (None, None) => f.write_str("all"),
            (None, Some(number)) => write!(f, "{number}"),
            (Some(maker), None) => f.write_str(maker.name()),
            (Some(maker), Some(number)) => write!(f, "{}:{number}", maker.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_it_is_written() {
        for text in ["all", "0", "17", "nvidia", "amd:1", "intel:0"] {
            assert_eq!(text.parse::<GpuChoice>().unwrap().to_string(), text);
        }
        for text in
            ["", "ALL", "-1", "+1", "0x1", "nvidia:", "nvidia:x", ":0", "matrox", "nvidia:0:1", "99999999999"]
        {
            assert!(text.parse::<GpuChoice>().is_err(), "{text}");
        }
    }
}
