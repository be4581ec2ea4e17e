import type { Dialect } from "../dialect/dialect";
import { Failure, type Result } from "../dialect/result";
import { ask, errorText, HTTPError, isAbort } from "./http";
import { type Range, stepFor } from "./range";

/** So many points a series has at most, where the query leaves that to the page. */
const pointsMax = 600;

/** What came of a query. */
export interface Outcome {
  result: Result | null;
  failure: Failure | null;
  raw: string;
  bytes: number;
  tookMs: number;
  range: Range;
}

/** runQuery asks, and reads the answer. It gives no error but AbortError. */
export async function runQuery(
  dialect: Dialect,
  text: string,
  database: string,
  range: Range,
  signal: AbortSignal,
): Promise<Outcome> {
  const stepSeconds = stepFor(range, pointsMax);
  const { path, params } = dialect.request(text, range, stepSeconds);
  if (database !== "") {
    params.set("db", database);
  }
  const outcome: Outcome = { result: null, failure: null, raw: "", bytes: 0, tookMs: 0, range };
  try {
    const answer = await ask(path, params, { signal });
    Object.assign(outcome, { raw: answer.text, bytes: answer.bytes, tookMs: answer.tookMs });
    outcome.result = dialect.result(JSON.parse(answer.text), stepSeconds);
    outcome.result.notes.unshift(...dialect.notes(text));
  } catch (error) {
    if (isAbort(error)) {
      throw error;
    }
    if (error instanceof HTTPError) {
      outcome.raw = error.body;
    }
    outcome.failure = error instanceof Failure ? error : dialect.failure(errorText(error));
  }
  return outcome;
}
