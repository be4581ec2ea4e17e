/** Rules and alerts, as /api/v1/rules tells of them. */

export interface Alert {
  labels: Record<string, string>;
  annotations: Record<string, string>;
  state: string;
  activeAt: string;
  value: string;
}

export interface Rule {
  type: "alerting" | "recording";
  name: string;
  query: string;
  /** Seconds for which the expression has to hold. */
  duration?: number;
  labels: Record<string, string>;
  health: string;
  lastError?: string;
  evaluationTime: number;
  lastEvaluation: string;
  state?: string;
  alerts?: Alert[];
}

export interface Group {
  name: string;
  file: string;
  interval: number;
  evaluationTime: number;
  rules: Rule[];
}

export const filters = ["all", "firing", "pending", "failing"] as const;
export type Filter = (typeof filters)[number];

/** passes tells whether a rule is one of those that somebody wants to see. */
export function passes(rule: Rule, filter: Filter): boolean {
  switch (filter) {
    case "all":
      return true;
    case "failing":
      return rule.health === "err";
    default:
      return rule.state === filter;
  }
}

/** filtered gives the groups with the rules that pass, and only those that have some. */
export function filtered(groups: Group[], filter: Filter): Group[] {
  return groups
    .map((group) => ({ ...group, rules: group.rules.filter((rule) => passes(rule, filter)) }))
    .filter((group) => group.rules.length > 0);
}

/** ruleCounts tells how many rules pass each filter. */
export function ruleCounts(groups: Group[]): Record<Filter, number> {
  const rules = groups.flatMap((group) => group.rules);
  const count = (filter: Filter) => rules.filter((rule) => passes(rule, filter)).length;
  return { all: count("all"), firing: count("firing"), pending: count("pending"), failing: count("failing") };
}
