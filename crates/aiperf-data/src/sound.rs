//! Files of audio: which form they have, how long they play, and FLAC as WAV.

use std::io::Cursor;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use claxon::{Block, FlacReader};

/// Characters of base64 that are looked at first: where a WAV and a FLAC say how long they are.
const HEAD: usize = 4096;

/// Forms of audio that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Wav,
    Flac,
    Mp3,
}

impl Form {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wav => "WAV",
            Self::Flac => "FLAC",
            Self::Mp3 => "MP3",
        }
    }
}

/// Which form a file has, by its first bytes.
pub(crate) fn form(bytes: &[u8]) -> Option<Form> {
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WAVE") {
        return Some(Form::Wav);
    }
    if bytes.starts_with(b"fLaC") {
        return Some(Form::Flac);
    }
    (bytes.starts_with(b"ID3") || Frame::read(bytes).is_some()).then_some(Form::Mp3)
}

/// How long a content of audio plays that travels encoded (`wav,…`, `mp3,…` or a data URL), nanoseconds; none, where that cannot
/// be told.
pub fn audio_ns(content: &str) -> Option<u64> {
    let (_, data) = content.split_once(',')?;
    let head = BASE64_STANDARD.decode(&data.as_bytes()[..data.len().min(HEAD)]).ok()?;
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    let seconds = match form(&head)? {
        Form::Wav => wav_seconds(&head, (data.len() / 4 * 3).saturating_sub(padding)).ok(),
        Form::Flac => flac_seconds(&head),
        Form::Mp3 => None,
    };
    let whole = || {
        let bytes = BASE64_STANDARD.decode(data).ok()?;
        match form(&bytes)? {
            Form::Wav => wav_seconds(&bytes, bytes.len()).ok(),
            Form::Flac => None,
            Form::Mp3 => mp3_seconds(&bytes).ok(),
        }
    };
    seconds.or_else(whole).map(|seconds| (seconds * 1e9).round() as u64)
}

/// How long a FLAC says that it plays, seconds.
fn flac_seconds(bytes: &[u8]) -> Option<f64> {
    // 20 bits of the rate, 3 of channels, 5 of bits of a sample, 36 of samples.
    let told = u64::from_be_bytes(bytes.get(18..26)?.try_into().ok()?);
    let (rate, samples) = (told >> 44, told & ((1 << 36) - 1));
    (rate > 0 && samples > 0).then(|| samples as f64 / rate as f64)
}

/// How long a WAV plays that begins with `bytes` and has `total`, seconds. Its size may be left open, as by a program that writes
/// into a pipe.
pub(crate) fn wav_seconds(bytes: &[u8], total: usize) -> Result<f64, String> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let mut at = 12;
    let mut a_second = None;
    while let (Some(name), Some(len)) = (bytes.get(at..at + 4), u32_at(at + 4)) {
        let begin = at + 8;
        let len = (len as usize).min(total.saturating_sub(begin));
        match name {
            // Bytes a second stand in it.
            b"fmt " => a_second = u32_at(begin + 8).filter(|_| len >= 16),
            b"data" => {
                let a_second = a_second.filter(|bytes| *bytes > 0).ok_or("does not say its rate")?;
                return Ok(len as f64 / f64::from(a_second));
            }
            _ => {}
        }
        // Of odd length: a byte fills it up.
        at = begin + len + len % 2;
    }
    Err("has no samples".to_owned())
}

/// A FLAC as WAV with the same samples, in 16 bits where it has fewer; none, if it plays for longer than `longest` seconds.
pub(crate) fn flac_as_wav(bytes: &[u8], longest: f64) -> Result<Option<Vec<u8>>, String> {
    let failed = |error: claxon::Error| format!("cannot be unpacked: {error}");
    let mut reader = FlacReader::new(Cursor::new(bytes)).map_err(failed)?;
    let info = reader.streaminfo();
    let (rate, channels, bits) = (info.sample_rate, info.channels, info.bits_per_sample);
    if rate == 0 || channels == 0 {
        return Err("does not say its rate".to_owned());
    }
    let most = (longest * f64::from(rate)).floor() as u64;
    if info.samples.is_some_and(|samples| samples > most) {
        return Ok(None);
    }
    let width = bits.div_ceil(8).clamp(2, 4);
    let shift = width * 8 - bits.min(32);
    let mut samples = Vec::new();
    let mut told = 0;
    let mut buffer = Vec::new();
    let mut blocks = reader.blocks();
    while let Some(block) = blocks.read_next_or_eof(buffer).map_err(failed)? {
        told += u64::from(block.duration());
        if told > most {
            return Ok(None);
        }
        write(&block, shift, width as usize, &mut samples);
        buffer = block.into_buffer();
    }
    if info.samples.is_some_and(|samples| samples != told) {
        return Err(format!("ends after {told} of {} samples", info.samples.unwrap_or_default()));
    }
    let frame = channels * width;
    let size = u32::try_from(samples.len()).map_err(|_| "is too large for WAV".to_owned())?;
    let mut wav = Vec::with_capacity(44 + samples.len() + 1);
    wav.extend_from_slice(b"RIFF");
    wav.extend_from_slice(&(36 + size + size % 2).to_le_bytes());
    wav.extend_from_slice(b"WAVEfmt ");
    wav.extend_from_slice(&16u32.to_le_bytes());
    wav.extend_from_slice(&1u16.to_le_bytes());
    wav.extend_from_slice(&(channels as u16).to_le_bytes());
    wav.extend_from_slice(&rate.to_le_bytes());
    wav.extend_from_slice(&(rate * frame).to_le_bytes());
    wav.extend_from_slice(&(frame as u16).to_le_bytes());
    wav.extend_from_slice(&(width as u16 * 8).to_le_bytes());
    wav.extend_from_slice(b"data");
    wav.extend_from_slice(&size.to_le_bytes());
    wav.extend_from_slice(&samples);
    if size % 2 == 1 {
        wav.push(0);
    }
    Ok(Some(wav))
}

/// Puts the samples of a block into `out`, one channel beside the other.
fn write(block: &Block, shift: u32, width: usize, out: &mut Vec<u8>) {
    for at in 0..block.duration() {
        for channel in 0..block.channels() {
            let sample = block.sample(channel, at) << shift;
            out.extend_from_slice(&sample.to_le_bytes()[..width]);
        }
    }
}

/// How long an MP3 plays, seconds.
pub(crate) fn mp3_seconds(bytes: &[u8]) -> Result<f64, String> {
    let mut rest = bytes;
    if let Some(size) = bytes.strip_prefix(b"ID3").and_then(|tag| tag.get(3..7)) {
        // Seven bits a byte.
        let size = size.iter().fold(0, |sum, byte| (sum << 7) | usize::from(byte & 0x7f));
        rest = bytes.get(10 + size..).unwrap_or_default();
    }
    let mut seconds = 0.0;
    let mut frames = 0u64;
    while let Some(frame) = Frame::read(rest) {
        let (whole, behind) = rest.split_at(frame.bytes.min(rest.len()));
        // The first may be a table of contents that plays nothing.
        let is_table = frames == 0 && [&b"Xing"[..], b"Info"].iter().any(|tag| has(whole, tag));
        if !is_table {
            seconds += frame.samples / frame.rate;
        }
        frames += 1;
        rest = behind;
    }
    if frames == 0 { Err("has no samples".to_owned()) } else { Ok(seconds) }
}

fn has(frame: &[u8], tag: &[u8]) -> bool {
    frame[..frame.len().min(64)].windows(tag.len()).any(|at| at == tag)
}

/// The head of a frame of MPEG audio, layer III.
struct Frame {
    bytes: usize,
    samples: f64,
    rate: f64,
}

impl Frame {
    fn read(bytes: &[u8]) -> Option<Self> {
        /// Thousands of bits a second, by version 1 and the later ones.
        const KBITS: [[u32; 14]; 2] = [
            [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
            [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
        ];
        let [0xff, version, rates, ..] = *bytes else { return None };
        if version & 0xe0 != 0xe0 || (version >> 1) & 3 != 1 {
            return None;
        }
        let divided = match (version >> 3) & 3 {
            3 => 1,
            2 => 2,
            0 => 4,
            _ => return None,
        };
        let later = usize::from(divided > 1);
        let kbits = *KBITS[later].get(usize::from(rates >> 4).checked_sub(1)?)?;
        let rate = [44_100, 48_000, 32_000].get(usize::from((rates >> 2) & 3))? / divided;
        let samples = if later == 1 { 576 } else { 1152 };
        let bytes = samples / 8 * kbits * 1000 / rate + u32::from((rates >> 1) & 1);
        Some(Self { bytes: bytes as usize, samples: f64::from(samples), rate: f64::from(rate) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 400 samples, each `(i · 37 mod 201 − 100) · 50`, at 8 kHz.
    const MONO: &[u8] = include_bytes!("sound/mono.flac");
    /// The same 997 and −501 times, of 24 bits, at 16 kHz.
    const STEREO: &[u8] = include_bytes!("sound/stereo_24.flac");

    fn seconds(wav: &[u8]) -> Result<f64, String> {
        wav_seconds(wav, wav.len())
    }

    fn wave(i: i32) -> i32 {
        ((i * 37) % 201 - 100) * 50
    }

    /// A FLAC that says another number of samples.
    fn telling(flac: &[u8], samples: u64) -> Vec<u8> {
        let mut flac = flac.to_vec();
        // 36 bits behind the rate, the channels and the bits of a sample.
        let told = u64::from_be_bytes(flac[18..26].try_into().expect("eight bytes"));
        let told = (told & !((1 << 36) - 1)) | samples;
        flac[18..26].copy_from_slice(&told.to_be_bytes());
        flac
    }

    #[test]
    fn flac_keeps_its_samples() {
        let wav = flac_as_wav(MONO, 30.0).expect("good").expect("short");
        assert_eq!(&wav[..4], b"RIFF");
        assert_eq!(wav[4..8], (wav.len() as u32 - 8).to_le_bytes());
        assert_eq!(&wav[8..16], b"WAVEfmt ");
        assert_eq!(
            wav[20..36],
            *b"\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0",
            "PCM, 1, 8000, 16000, 2, 16"
        );
        let samples: Vec<i32> =
            wav[44..].chunks(2).map(|b| i32::from(i16::from_le_bytes([b[0], b[1]]))).collect();
        assert_eq!(samples, (0..400).map(wave).collect::<Vec<_>>());
        assert_eq!(seconds(&wav), Ok(0.05));
        let wav = flac_as_wav(STEREO, 30.0).expect("good").expect("short");
        let samples: Vec<i32> =
            wav[44..].chunks(3).map(|b| i32::from_le_bytes([0, b[0], b[1], b[2]]) >> 8).collect();
        assert_eq!(samples, (0..400).flat_map(|i| [wave(i) * 997, -wave(i) * 501]).collect::<Vec<_>>());
        assert_eq!(seconds(&wav), Ok(0.025));
    }

    #[test]
    fn a_long_flac_is_not_unpacked() {
        assert_eq!(flac_as_wav(&telling(MONO, 30 * 8000 + 1), 30.0), Ok(None));
        // Where it does not say how long it is, it is listened to.
        let wav = flac_as_wav(&telling(MONO, 0), 0.05).expect("good").expect("short");
        assert_eq!(wav.len(), 844);
        assert_eq!(flac_as_wav(&telling(MONO, 0), 0.049), Ok(None));
        let short = flac_as_wav(&telling(MONO, 30 * 8000), 30.0).expect_err("it holds 400");
        assert_eq!(short, "ends after 400 of 240000 samples");
        assert!(flac_as_wav(&MONO[..MONO.len() - 9], 30.0).is_err());
    }

    /// A WAV whose samples take `len` bytes.
    fn wav(rate: u32, frame: u16, len: usize, more: &[u8]) -> Vec<u8> {
        let mut wav = b"RIFF\0\0\0\0WAVE".to_vec();
        wav.extend_from_slice(more);
        wav.extend_from_slice(b"fmt \x10\0\0\0\x01\0\x01\0");
        wav.extend_from_slice(&rate.to_le_bytes());
        wav.extend_from_slice(&(rate * u32::from(frame)).to_le_bytes());
        wav.extend_from_slice(&frame.to_le_bytes());
        wav.extend_from_slice(&(frame * 8).to_le_bytes());
        wav.extend_from_slice(b"data");
        wav.extend_from_slice(&(len as u32).to_le_bytes());
        wav.resize(wav.len() + len, 0);
        wav
    }

    #[test]
    fn wav_says_how_long_it_plays() {
        assert_eq!(seconds(&wav(8000, 2, 4000, b"")), Ok(0.25));
        assert_eq!(seconds(&wav(16_000, 4, 64_000, b"LIST\x03\0\0\0abc\0")), Ok(1.0));
        let mut open = wav(8000, 2, 8000, b"");
        let at = open.len() - 8004;
        open[at..at + 4].fill(0xff);
        assert_eq!(seconds(&open), Ok(0.5), "the size was left open");
        assert_eq!(seconds(&wav(8000, 2, 0, b"")[..36]), Err("has no samples".to_owned()));
        assert_eq!(seconds(&wav(0, 2, 8, b"")), Err("does not say its rate".to_owned()));
        assert_eq!(form(&wav(1, 1, 0, b"")), Some(Form::Wav));
    }

    #[test]
    fn what_travels_says_how_long_it_plays() {
        let travels =
            |head: &str, bytes: &[u8]| audio_ns(&format!("{head},{}", BASE64_STANDARD.encode(bytes)));
        for len in [0, 1, 2, 3, 8000, 40_002] {
            let wanted = len as u64 * 1_000_000_000 / 16_000;
            assert_eq!(travels("wav", &wav(8000, 2, len, b"")), Some(wanted), "{len}");
        }
        // What stands before the samples may be longer than what is looked at.
        let mut more = b"LIST".to_vec();
        more.extend_from_slice(&9000u32.to_le_bytes());
        more.resize(9008, 0);
        assert_eq!(travels("data:audio/wav;base64", &wav(8000, 2, 4000, &more)), Some(250_000_000));
        assert_eq!(travels("data:audio/flac;base64", MONO), Some(50_000_000));
        assert_eq!(travels("data:audio/flac;base64", &telling(MONO, 0)), None);
        let mut frame = vec![0xff, 0xfb, 0x90, 0];
        frame.resize(417, 0);
        assert_eq!(travels("mp3", &frame.repeat(50)), Some(1_306_122_449), "50 · 1152 ÷ 44100 s");
        assert_eq!(travels("wav", b"OggS and so on"), None);
        assert_eq!([audio_ns("https://h/a.wav"), audio_ns("wav,?"), audio_ns("wav,")], [None; 3]);
    }

    #[test]
    fn mp3_is_told_by_its_frames() {
        // 128 kbit/s at 44.1 kHz: 144 · 128000 / 44100 = 417 bytes, 418 with one that fills it up.
        let frame = |padded: bool| {
            let mut frame = vec![0xff, 0xfb, if padded { 0x92 } else { 0x90 }, 0];
            frame.resize(if padded { 418 } else { 417 }, 0);
            frame
        };
        let mut table = frame(false);
        table[36..40].copy_from_slice(b"Xing");
        let mut all = b"ID3\x04\0\0\0\0\x01\x02".to_vec();
        all.resize(10 + 130, 0);
        all.extend(table);
        for at in 0..100 {
            all.extend(frame(at % 2 == 0));
        }
        assert_eq!(form(&all), Some(Form::Mp3));
        let seconds = mp3_seconds(&all).expect("frames");
        assert!((seconds - 100.0 * 1152.0 / 44_100.0).abs() < 1e-9, "{seconds}");
        // 32 kbit/s at 16 kHz, version 2: 72 · 32000 / 16000 = 144 bytes of 576 samples.
        let mut slow = vec![0xff, 0xf3, 0x48, 0];
        slow.resize(144, 0);
        let seconds = mp3_seconds(&slow.repeat(10)).expect("frames");
        assert!((seconds - 10.0 * 576.0 / 16_000.0).abs() < 1e-9, "{seconds}");
        assert!(mp3_seconds(b"ID3\x04\0\0\0\0\0\0nothing").is_err());
        assert_eq!(form(b"OggS"), None);
    }

    proptest! {
        #[test]
        fn nobody_falls_over_damage(at in 0..MONO.len(), by in 1..=255u8, end in 0..MONO.len(), tail: Vec<u8>) {
            let mut flac = MONO.to_vec();
            flac[at] ^= by;
            let _ = flac_as_wav(&flac, 30.0);
            let _ = flac_as_wav(&MONO[..end], 30.0);
            let mut sound = wav(8000, 2, 8, b"");
            let keep = end % sound.len();
            sound.truncate(keep);
            sound.extend_from_slice(&tail);
            let _ = seconds(&sound);
            let _ = mp3_seconds(&tail);
            let _ = mp3_seconds(&[b"ID3", &tail[..]].concat());
            let _ = form(&tail);
            let _ = audio_ns(&format!("wav,{}", BASE64_STANDARD.encode(&tail)));
            let _ = audio_ns(&format!("wav,{}", BASE64_STANDARD.encode(&sound)));
        }
    }
}
