/** What the browser keeps for this page. A browser that keeps nothing is no error. */

function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function write(key: string, value: string | null): void {
  try {
    if (value === null) {
      localStorage.removeItem(key);
    } else {
      localStorage.setItem(key, value);
    }
  } catch {
    // It is full, or forbidden: nothing is kept.
  }
}

function draftKey(dialect: string): string {
  return `tickmesh.draft.${dialect}`;
}

/** readDraft gives the text of a language that this tab had in its editor last. */
export function readDraft(dialect: string): string {
  try {
    return sessionStorage.getItem(draftKey(dialect)) ?? "";
  } catch {
    return "";
  }
}

export function writeDraft(dialect: string, text: string): void {
  try {
    sessionStorage.setItem(draftKey(dialect), text);
  } catch {
    // It is full, or forbidden: nothing is kept.
  }
}

const historyKey = "tickmesh.history";
const historyMax = 50;

/** A query that was run. */
export interface Past {
  dialect: string;
  text: string;
}

/** readHistory gives the queries that were run, the newest first. */
export function readHistory(): Past[] {
  try {
    const list: unknown = JSON.parse(read(historyKey) ?? "[]");
    return Array.isArray(list)
      ? list
          .filter((item): item is Past => typeof item?.dialect === "string" && typeof item?.text === "string")
          .slice(0, historyMax)
      : [];
  } catch {
    return [];
  }
}

/** remembered gives the history with one more query, each once. */
export function remembered(history: Past[], past: Past): Past[] {
  return [past, ...history.filter((item) => item.dialect !== past.dialect || item.text !== past.text)].slice(
    0,
    historyMax,
  );
}

export function writeHistory(history: Past[]): void {
  write(historyKey, history.length === 0 ? null : JSON.stringify(history));
}

export type Theme = "system" | "light" | "dark";
const themeKey = "tickmesh.theme";

export function readTheme(): Theme {
  const kept = read(themeKey);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function writeTheme(theme: Theme): void {
  write(themeKey, theme === "system" ? null : theme);
}
