/** Completion: what the place of the cursor asks for, told from the text alone. */
import type { DialectName } from "./dialect";
import { quoteIdent, quoteText } from "./influxql";
import { influxqlWords, opentsdbAggregators, opentsdbFilters, promqlFunctions } from "./words";

/** What fits at the cursor. */
export interface Context {
  kind: "metric" | "tag" | "value" | "field" | "none";
  /** What has been typed of it, without quotes. */
  prefix: string;
  /** Where that begins in the text, an opening quote included. */
  from: number;
  /** The metric whose tags are meant; "": any. */
  metric: string;
  /** The tag whose values are meant. */
  tag: string;
  /** Words of the language that fit, too. */
  words: readonly string[];
  /** How a name is put in. */
  quote: (name: string) => string;
}

const as = (name: string) => name;

function nothing(cursor: number): Context {
  return { kind: "none", prefix: "", from: cursor, metric: "", tag: "", words: [], quote: as };
}

/** contextAt says what fits at the cursor. */
export function contextAt(dialect: DialectName, text: string, cursor: number): Context {
  const before = text.slice(0, cursor);
  switch (dialect) {
    case "promql":
      return promqlContext(text, before);
    case "opentsdb":
      return opentsdbContext(before);
    case "influxql":
      return influxqlContext(text, before);
  }
}

/** lastMatch gives the end of the text that the expression, anchored there, matches. */
function lastWord(before: string, word: RegExp): { prefix: string; from: number } {
  const prefix = word.exec(before)?.[0] ?? "";
  return { prefix, from: before.length - prefix.length };
}

/** scanned is what stands open at the end of a text. */
interface Scanned {
  /** Where an open string begins, at its quote; -1: none is open. */
  string: number;
  quote: string;
  /** Open brackets, the last one innermost. */
  brackets: { bracket: string; at: number }[];
}

function scan(before: string, quotes: string): Scanned {
  const state: Scanned = { string: -1, quote: "", brackets: [] };
  for (let i = 0; i < before.length; i++) {
    const c = before[i] ?? "";
    if (state.string >= 0) {
      if (c === "\\" && state.quote !== "`") {
        i++;
      } else if (c === state.quote) {
        state.string = -1;
      }
    } else if (quotes.includes(c)) {
      state.string = i;
      state.quote = c;
    } else if ("({[".includes(c)) {
      state.brackets.push({ bracket: c, at: i });
    } else if (")}]".includes(c)) {
      state.brackets.pop();
    }
  }
  return state;
}

const promqlWord = /[a-zA-Z_:][\w:.]*$/;

function promqlContext(text: string, before: string): Context {
  const state = scan(before, "\"'`");
  const open = state.brackets.at(-1);
  if (state.string >= 0) {
    if (open?.bracket !== "{") {
      return nothing(before.length);
    }
    const label = /([a-zA-Z_]\w*|"(?:[^"\\]|\\.)*")\s*(?:=~|!~|!=|=)\s*$/.exec(before.slice(0, state.string));
    const prefix = before.slice(state.string + 1);
    if (label === null) {
      return { ...nothing(state.string), kind: "metric", prefix, quote: JSON.stringify };
    }
    const tag = (label[1] ?? "").replace(/^"|"$/g, "");
    return {
      ...nothing(state.string),
      kind: "value",
      prefix,
      tag,
      metric: promqlMetricOf(text, before, open.at),
      quote: JSON.stringify,
    };
  }
  if (open?.bracket === "{") {
    if (!/[{,]\s*\w*$/.test(before)) {
      return nothing(before.length);
    }
    return {
      ...nothing(0),
      ...lastWord(before, /[a-zA-Z_]\w*$/),
      kind: "tag",
      metric: promqlMetricOf(text, before, open.at),
      quote: promqlLabel,
    };
  }
  if (open?.bracket === "[" || /[\d.]\w*$/.test(before.replace(/[a-zA-Z_:][\w:.]*$/, ""))) {
    return nothing(before.length);
  }
  const word = lastWord(before, promqlWord);
  if (
    open?.bracket === "(" &&
    /\b(by|without|on|ignoring|group_left|group_right)\s*$/i.test(before.slice(0, open.at))
  ) {
    const metric = /([a-zA-Z_:][\w:]*)\s*[{[]/.exec(text)?.[1] ?? "";
    return { ...nothing(0), ...word, kind: "tag", metric, quote: promqlLabel };
  }
  return { ...nothing(0), ...word, kind: "metric", words: promqlFunctions, quote: promqlMetric };
}

const promqlMetric = (name: string) => (/^[a-zA-Z_:][\w:]*$/.test(name) ? name : `{${JSON.stringify(name)}}`);
const promqlLabel = (name: string) => (/^[a-zA-Z_]\w*$/.test(name) ? name : JSON.stringify(name));

/** promqlMetricOf gives the metric that a brace belongs to: before it, or quoted within it. */
function promqlMetricOf(text: string, before: string, brace: number): string {
  const named = /([a-zA-Z_:][\w:]*)\s*$/.exec(before.slice(0, brace));
  if (named !== null) {
    return named[1] ?? "";
  }
  const inside = /^\{\s*"((?:[^"\\]|\\.)*)"\s*[,}]/.exec(text.slice(brace));
  return inside?.[1] ?? "";
}

function opentsdbContext(before: string): Context {
  const lineStart = before.lastIndexOf("\n") + 1;
  const line = before.slice(lineStart);
  const brace = line.lastIndexOf("{");
  const metric = (/([^:{]*)\{/.exec(line)?.[1] ?? "").trim();
  if (brace >= 0 && line.indexOf("}", brace) < 0) {
    const pair = line.slice(Math.max(brace, splitAt(line)) + 1);
    const equals = pair.indexOf("=");
    if (equals < 0) {
      const prefix = pair.trimStart();
      return { ...nothing(before.length - prefix.length), kind: "tag", prefix, metric };
    }
    const tag = pair.slice(0, equals).trim();
    const value = pair.slice(equals + 1);
    const prefix = value.slice(Math.max(value.lastIndexOf("("), value.lastIndexOf("|")) + 1);
    const words = prefix === value ? opentsdbFilters : [];
    return { ...nothing(before.length - prefix.length), kind: "value", prefix, metric, tag, words };
  }
  if (line.includes("}")) {
    return nothing(before.length);
  }
  const colon = line.lastIndexOf(":");
  const prefix = line.slice(colon + 1).replace(/^\s*(m=)?/, "");
  const from = before.length - prefix.length;
  return colon < 0
    ? { ...nothing(from), prefix, words: opentsdbAggregators }
    : { ...nothing(from), kind: "metric", prefix, words: ["rate:"] };
}

/** splitAt gives the last comma of a line that stands in no round brackets. */
function splitAt(line: string): number {
  let depth = 0;
  for (let i = line.length - 1; i >= 0; i--) {
    const c = line[i];
    if (c === ")") {
      depth++;
    } else if (c === "(") {
      depth--;
    } else if (c === "," && depth >= 0) {
      return depth === 0 ? i : -1;
    }
  }
  return -1;
}

function influxqlContext(text: string, before: string): Context {
  const state = scan(before, "\"'");
  const statement = before.slice(before.lastIndexOf(";") + 1);
  const metric = influxqlMetric(text);
  if (state.string >= 0) {
    const head = before.slice(0, state.string);
    const prefix = before.slice(state.string + 1);
    const at = { ...nothing(state.string), prefix, metric };
    if (state.quote === "'") {
      const tag = /("(?:[^"\\]|\\.)*"|[\w.]+)\s*(?:=~|!~|!=|=|<>)\s*$/.exec(head)?.[1] ?? "";
      return tag === ""
        ? nothing(before.length)
        : { ...at, kind: "value", tag: tag.replace(/^"|"$/g, ""), quote: quoteText };
    }
    return { ...at, kind: influxqlKind(statement.slice(0, statement.length - prefix.length - 1)), quote: quoteIdent };
  }
  const word = lastWord(before, /[\w.$]+$/);
  const kind = influxqlKind(statement.slice(0, statement.length - word.prefix.length));
  return { ...nothing(0), ...word, kind, metric, words: influxqlWords, quote: quoteIdent };
}

/** influxqlMetric gives the measurement of the first FROM. */
function influxqlMetric(text: string): string {
  const match = /\bfrom\s+(?:"((?:[^"\\]|\\.)*)"|([\w.]+))/i.exec(text);
  return match?.[1] ?? match?.[2] ?? "";
}

/** influxqlKind tells from the last clause which names follow. */
function influxqlKind(head: string): Context["kind"] {
  const clauses = [
    ...head.matchAll(/\b(select|from|where|group\s+by|and|or|measurement|key\s*=?|in|limit|offset|into)\b/gi),
  ];
  switch (clauses.at(-1)?.[1]?.toLowerCase().replace(/\s+/g, " ")) {
    case "select":
      return "field";
    case "from":
    case "measurement":
      return /\b(from|measurement)\s*=?\s*$/i.test(head) || /,\s*$/.test(head) ? "metric" : "none";
    case "where":
    case "and":
    case "or":
      return /\b(where|and|or)\s*\(*\s*$/i.test(head) ? "tag" : "none";
    case "group by":
      return /(by|,)\s*$/i.test(head) ? "tag" : "none";
    case "key =":
    case "in":
      return "tag";
    default:
      return "none";
  }
}

/** A proposal: what it shows, and what it puts in. */
export interface Proposal {
  label: string;
  insert: string;
  kind: "metric" | "tag" | "value" | "field" | "word";
}

const proposalsMax = 50;

/** proposals joins names of the server with words of the language, the names first. */
export function proposals(context: Context, names: string[]): Proposal[] {
  const list: Proposal[] = [];
  if (context.kind !== "none") {
    for (const name of names) {
      if (name.startsWith(context.prefix)) {
        list.push({ label: name, insert: context.quote(name), kind: context.kind });
      }
    }
  }
  const typed = context.prefix.toLowerCase();
  if (typed !== "" || context.kind === "none") {
    for (const word of context.words) {
      if (word.toLowerCase().startsWith(typed) && word.toLowerCase() !== typed) {
        list.push({ label: word, insert: word, kind: "word" });
      }
    }
  }
  return list.slice(0, proposalsMax);
}

/** applied gives the text with a proposal put in at the cursor, and the cursor after it. */
export function applied(
  text: string,
  cursor: number,
  context: Context,
  insert: string,
): { text: string; cursor: number } {
  let rest = text.slice(cursor);
  // The closing quote of a string that is completed is there already.
  const close = insert.at(-1) ?? "";
  if (`"'`.includes(close) && close !== "" && rest.startsWith(close) && text[context.from] === close) {
    rest = rest.slice(1);
  }
  return { text: text.slice(0, context.from) + insert + rest, cursor: context.from + insert.length };
}
