/** Answers as files. */
import { type Result, type Series, seriesName } from "../dialect/result";
import { aligned } from "./align";

/** field writes a field of comma-separated values; a text that a table program would take for a formula is none. */
function field(text: string): string {
  const safe = /^[=+@\t\r]|^-(?![\d.]|Inf)/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function number(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : String(value);
}

/** resultCSV writes series as columns beside their times, or else the first table. */
export function resultCSV(result: Result): string {
  if (result.series.length === 0) {
    const [table] = result.tables;
    return table === undefined ? "" : lines([table.columns, ...table.rows]);
  }
  // A gap of a line is no row.
  const [times, ...columns] = aligned(result.series.map(({ stepMs: _, ...s }) => s as Series));
  const rows = times.map((ms, i) => [new Date(ms).toISOString(), ...columns.map((column) => number(column[i]))]);
  return lines([["time", ...result.series.map(seriesName)], ...rows]);
}

function lines(rows: string[][]): string {
  return rows.map((row) => `${row.map(field).join(",")}\n`).join("");
}

/** save has the browser keep a text as a file. */
export function save(name: string, type: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** copy puts a text on the clipboard, also where a page without TLS may not. It tells whether it could. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
