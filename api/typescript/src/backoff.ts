/** How long to wait before the next attempt at what has failed. */
export interface Backoff {
  /** After the first failure; twice as long after each further one. */
  readonly minMs: number;
  readonly maxMs: number;
}

/**
 * Returns the wait after so many failures in a row, from 1: at least what the server asks for, up to maxMs. It is drawn
 * from the upper half, by random in [0, 1), so that those who failed together do not come back together.
 */
export function delayMs(
  { minMs, maxMs }: Backoff,
  failures: number,
  retryAfterMs: number,
  random = Math.random(),
): number {
  const longest = Math.min(minMs * 2 ** (failures - 1), maxMs);
  return Math.max(longest * (1 - random / 2), Math.min(retryAfterMs, maxMs));
}
