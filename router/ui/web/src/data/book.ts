/** The book of queries, as /ui/api/queries tells it. */

import type { Reopened } from "../dialect/dialect";
import { dialectNames, dialectOf } from "../dialect/dialect";

export interface Query {
  id: string;
  dialect: string;
  database: string;
  text: string;
  user: string;
  beganMs: number;
  tookMs: number;
  series: number;
  samples: number;
  bytes: number;
  error: string;
  mayCancel: boolean;
}

export interface Queries {
  running: Query[];
  slow: Query[];
  hidden: number;
}

/** reopened gives what to write to ask a query again; null: the page cannot. */
export function reopened(q: Query): Reopened | null {
  const name = dialectNames.find((dialect) => dialect === q.dialect);
  return name === undefined ? null : dialectOf(name).reopened(q.text);
}

/** Slow queries that ask the same, in whatever range of time: the longest of them, and how many there were. */
export interface Repeated {
  longest: Query;
  times: number;
  newestMs: number;
}

export const orders = ["longest", "newest", "often"] as const;
export type Order = (typeof orders)[number];

/** grouped puts queries that ask the same together. */
export function grouped(queries: Query[], order: Order): Repeated[] {
  const groups = new Map<string, Repeated>();
  for (const q of queries) {
    const key = JSON.stringify([q.dialect, q.database, q.user, q.error, reopened(q)?.text ?? q.text]);
    const group = groups.get(key);
    if (group === undefined) {
      groups.set(key, { longest: q, times: 1, newestMs: q.beganMs });
      continue;
    }
    group.times++;
    group.newestMs = Math.max(group.newestMs, q.beganMs);
    if (q.tookMs > group.longest.tookMs) {
      group.longest = q;
    }
  }
  const by = {
    longest: (group: Repeated) => group.longest.tookMs,
    newest: (group: Repeated) => group.newestMs,
    often: (group: Repeated) => group.times,
  }[order];
  return [...groups.values()].sort((a, b) => by(b) - by(a) || b.newestMs - a.newestMs);
}
