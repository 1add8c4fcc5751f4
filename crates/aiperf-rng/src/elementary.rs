//! Natural logarithm and exponential from basic operations alone.
//!
//! The standard library hands these to the platform's mathematics library, whose last bit differs between platforms and
//! versions; a schedule must not. Both are good to about two units in the last place, far below what any draw needs.

/// ln 2 in two parts: the first has 20 zero bits at its end, so that a product with an exponent is exact.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// 2^54, which lifts subnormal numbers into the normal range.
const TWO_54: f64 = 18_014_398_509_481_984.0;
/// Terms of the series for ln: 0.0295^10 / 21 is below 2^-60.
const LN_TERMS: u32 = 10;
/// Terms of the series for exp: 0.3466^14 / 14! is below 2^-56.
const EXP_TERMS: u32 = 14;

/// Natural logarithm. Zero gives −∞, a negative number NaN.
///
/// With x = 2^k · m and √½ ≤ m < √2: ln x = k ln 2 + 2 artanh((m − 1)/(m + 1)), by the series of artanh.
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_infinite() {
        return x;
    }
    let (x, lift) = if x < f64::MIN_POSITIVE { (x * TWO_54, 54) } else { (x, 0) };
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023 - lift;
    let mut m = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for i in (1..=LN_TERMS).rev() {
        sum = (sum + 1.0 / f64::from(2 * i + 1)) * square;
    }
    let k = f64::from(exponent);
    k * LN2_HIGH + (2.0 * s + (2.0 * s * sum + k * LN2_LOW))
}

/// e to the power of x; overflows to ∞ and underflows to 0.
///
/// With x = k ln 2 + r and |r| ≤ ln 2 / 2: e^x = 2^k · e^r, by the series of e^r.
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > 709.79 {
        return f64::INFINITY;
    }
    if x < -745.2 {
        return 0.0;
    }
    let k = (x * std::f64::consts::LOG2_E).round();
    let r = (x - k * LN2_HIGH) - k * LN2_LOW;
    let mut sum = 1.0;
    for i in (1..=EXP_TERMS).rev() {
        sum = 1.0 + sum * r / f64::from(i);
    }
    // In two steps, because 2^k alone leaves the range of normal numbers at both ends.
    let half = k as i32 / 2;
    sum * power_of_two(half) * power_of_two(k as i32 - half)
}

/// 2^k for −1022 ≤ k ≤ 1023.
fn power_of_two(k: i32) -> f64 {
    f64::from_bits(((1023 + k) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        assert_eq!(ln(1.0).to_bits(), 0.0f64.to_bits());
        assert_eq!(ln(0.0).to_bits(), f64::NEG_INFINITY.to_bits());
        assert!(ln(-1.0).is_nan() && ln(f64::NAN).is_nan() && exp(f64::NAN).is_nan());
        assert_eq!(ln(f64::INFINITY).to_bits(), f64::INFINITY.to_bits());
        assert_eq!(exp(0.0).to_bits(), 1.0f64.to_bits());
        assert_eq!(exp(1000.0).to_bits(), f64::INFINITY.to_bits());
        assert_eq!(exp(-1000.0).to_bits(), 0.0f64.to_bits());
        assert!((ln(f64::from_bits(1)) - -744.440_071_921_381_2).abs() < 1e-12, "smallest subnormal");
        assert!(exp(-745.0) > 0.0 && exp(709.7).is_finite());
    }

    /// These bits are the contract: a change of any of them changes every schedule.
    #[test]
    fn bits_are_pinned() {
        let sum = |f: fn(f64) -> f64, scale: f64| {
            (1..=1000u32).fold(0u64, |h, i| h.rotate_left(5) ^ f(f64::from(i) * scale).to_bits())
        };
        assert_eq!(
            (sum(ln, 0.001), sum(exp, -0.01)),
            (10_452_789_806_031_110_075, 5_580_762_295_385_281_135)
        );
    }

    proptest! {
        #[test]
        fn ln_agrees_with_the_platform(x in prop::num::f64::POSITIVE | prop::num::f64::SUBNORMAL) {
            let x = x.abs();
            prop_assume!(x > 0.0 && x.is_finite());
            let (ours, theirs) = (ln(x), x.ln());
            prop_assert!((ours - theirs).abs() <= theirs.abs() * 1e-15, "{x}: {ours} {theirs}");
        }

        #[test]
        fn ln_near_one_keeps_relative_precision(x in 0.5f64..2.0) {
            prop_assert!((ln(x) - x.ln()).abs() <= x.ln().abs() * 1e-15);
        }

        #[test]
        fn exp_agrees_with_the_platform(x in -700.0f64..700.0) {
            prop_assert!((exp(x) - x.exp()).abs() <= x.exp() * 1e-15, "{x}: {} {}", exp(x), x.exp());
        }
    }
}
