/** Plans of queries, as explain=true answers them. */

import { asArray, asText, isObject } from "../dialect/result";
import { formatBytes, formatCount } from "./format";

export interface Plan {
  facts: [string, string][];
  reads: { columns: string[]; rows: string[][] };
}

/** plansOf finds the plans in an answer of any language. */
export function plansOf(body: unknown): Plan[] {
  if (Array.isArray(body)) {
    return body.flatMap(plansOf);
  }
  if (!isObject(body)) {
    return [];
  }
  if (Array.isArray(body.reads)) {
    return [planOf(body)];
  }
  return [body.data, body.results, body.plan].flatMap(plansOf);
}

function planOf(body: Record<string, unknown>): Plan {
  const facts: [string, string][] = [];
  for (const [name, value] of Object.entries({ query: body.query, evaluation: body.evaluation })) {
    if (asText(value) !== "") {
      facts.push([name, asText(value)]);
    }
  }
  const { estimate, admission } = body;
  if (isObject(estimate)) {
    facts.push(["reads in all", words(estimate)]);
  }
  if (isObject(admission)) {
    const { exceeds, ...bounds } = admission;
    facts.push(["may read", words(bounds)]);
    const beyond = asArray(exceeds).map(asText);
    if (beyond.length > 0) {
      facts.push(["would be refused for", beyond.join(", ")]);
    }
  }
  const reads = asArray(body.reads).filter(isObject);
  const columns = [...new Set(reads.flatMap((read) => Object.keys(read)))];
  return { facts, reads: { columns, rows: reads.map((read) => columns.map((column) => cell(read[column]))) } };
}

function words(of: Record<string, unknown>): string {
  return Object.entries(of)
    .map(([name, value]) => {
      const of = name.replace(/Max$/, "");
      if (typeof value !== "number") {
        return `${cell(value)} ${of}`;
      }
      return of === "bytes" ? formatBytes(value) : `${formatCount(value)} ${of}`;
    })
    .join(" · ");
}

function cell(value: unknown): string {
  if (isObject(value)) {
    return Object.entries(value)
      .map(([name, v]) => `${name} ${cell(v)}`)
      .join(", ");
  }
  return Array.isArray(value) ? value.map(cell).join(", ") : asText(value);
}
