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

/** A query as it is to be run. */
export interface Asked {
  dialect: Dialect;
  text: string;
  database: string;
  range: Range;
  /** Seconds between points; null: as fits the range. */
  stepSeconds: number | null;
  /** At the end of the range alone, in a language that can. */
  instant: boolean;
}

/** requestOf gives the request of a query. */
export function requestOf(asked: Asked): { path: string; params: URLSearchParams; stepSeconds: number } {
  const stepSeconds = asked.stepSeconds ?? stepFor(asked.range, pointsMax);
  const ask = asked.instant ? (asked.dialect.instant ?? asked.dialect.request) : asked.dialect.request;
  const { path, params } = ask(asked.text, asked.range, stepSeconds);
  if (asked.database !== "") {
    params.set("db", asked.database);
  }
  return { path, params, stepSeconds };
}

/** runQuery asks, and reads the answer. It gives no error but AbortError. */
export async function runQuery(asked: Asked, signal: AbortSignal): Promise<Outcome> {
  const { dialect, text, range } = asked;
  const { path, params, stepSeconds } = requestOf(asked);
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
