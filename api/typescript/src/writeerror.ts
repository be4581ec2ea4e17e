import { TickmeshError } from "./errors.js";
import type { Series } from "./model.js";

/** The samples of one series that a server has left out of a batch, and why. */
export interface RefusedSeries {
  readonly series: Series;
  readonly points: number;
  readonly error: TickmeshError;
}

/**
 * What could not be written: points that were refused, or of which nobody knows whether they were written. Its kind is
 * that of the first of its causes, of which it has the first ones; there were total.
 */
export class WriteError extends TickmeshError {
  override readonly name = "WriteError";

  constructor(
    readonly points: number,
    readonly causes: readonly (RefusedSeries | TickmeshError)[],
    readonly total: number,
  ) {
    const first = causes[0];
    const error = first instanceof TickmeshError ? first : first?.error;
    const what = first instanceof TickmeshError || first === undefined ? "" : `${first.series} is refused: `;
    super(
      error?.kind ?? "internal",
      `${points} points may not have been written, ${total} errors, the first: ${what}${error?.message}`,
      0,
      undefined,
      { cause: error },
    );
  }
}
