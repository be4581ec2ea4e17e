use std::time::Duration;

/// How long to wait before the next attempt at what has failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// After the first failure; twice as long after each further one.
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

impl Backoff {
    /// Returns the wait after so many failures in a row, from 1: at least what the server asks for, up to `max`. It is
    /// drawn from the upper half, by `random` in [0, 1], so that those who failed together do not come back together.
    pub(crate) fn delay(&self, failures: u32, retry_after: Duration, random: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let longest = self.min.saturating_mul(1 << doublings).min(self.max);
        longest.mul_f64(1.0 - random / 2.0).max(retry_after.min(self.max))
    }
}

/// Returns 64 random bits of the operating system.
pub(crate) fn random_bits() -> u64 {
    let mut bytes = [0; 8];
    // Without a source of randomness TLS would not work either; a clock is enough to spread delays.
    if getrandom::getrandom(&mut bytes).is_err() {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
        return now.map_or(1, |d| d.as_nanos() as u64);
    }
    u64::from_ne_bytes(bytes)
}

/// Returns a random number in [0, 1).
pub(crate) fn random_fraction() -> f64 {
    (random_bits() >> 11) as f64 / (1_u64 << 53) as f64
}
