import { useMemo, useState } from "preact/hooks";
import { summary } from "../data/align";
import { formatCount, formatNumber, formatTime } from "../data/format";
import { type Series, seriesName, type Table } from "../dialect/result";

const rowsMax = 500;

type Column = "name" | "count" | "last" | "min" | "mean" | "max";
const columns: { key: Column; title: string }[] = [
  { key: "name", title: "Series" },
  { key: "last", title: "Newest" },
  { key: "min", title: "Min" },
  { key: "mean", title: "Mean" },
  { key: "max", title: "Max" },
  { key: "count", title: "Points" },
];

/** SeriesTable has a row for each series, in the order that a person chooses. */
export function SeriesTable({ series }: { series: Series[] }) {
  const [sort, setSort] = useState<{ by: Column; down: boolean } | null>(null);
  const [opened, setOpened] = useState<string | null>(null);
  const rows = useMemo(() => {
    const all = series.map((s, i) => ({ id: String(i), series: s, name: seriesName(s), ...summary(s.values) }));
    if (sort !== null) {
      const { by, down } = sort;
      all.sort((a, b) => {
        const [x, y] = [a[by], b[by]];
        if (x === null || y === null) {
          return x === y ? 0 : x === null ? 1 : -1; // those without a number are last
        }
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      });
    }
    return all;
  }, [series, sort]);
  return (
    <div class="scroll">
      <table class="series">
        <thead>
          <tr>
            {columns.map(({ key, title }) => (
              <th
                key={key}
                scope="col"
                class={key === "name" ? "" : "number"}
                aria-sort={sort?.by !== key ? "none" : sort.down ? "descending" : "ascending"}
              >
                <button
                  type="button"
                  class="plain"
                  onClick={() => setSort({ by: key, down: sort?.by === key && !sort.down })}
                >
                  {title}
                  <span aria-hidden="true">{sort?.by !== key ? "" : sort.down ? " ↓" : " ↑"}</span>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, rowsMax).map((row) => (
            <>
              <tr key={row.id}>
                <th scope="row">
                  <button
                    type="button"
                    class="plain mono"
                    aria-expanded={opened === row.id}
                    title="Show its points"
                    onClick={() => setOpened(opened === row.id ? null : row.id)}
                  >
                    {row.name}
                  </button>
                </th>
                {columns.slice(1).map(({ key }) => (
                  <td key={key} class="number">
                    {key === "count" ? formatCount(row.count) : formatNumber(row[key as "last"])}
                  </td>
                ))}
              </tr>
              {opened === row.id && (
                <tr key={`${row.id}-points`}>
                  <td colSpan={columns.length}>
                    <Points series={row.series} />
                  </td>
                </tr>
              )}
            </>
          ))}
        </tbody>
      </table>
      {rows.length > rowsMax && (
        <p class="note">
          The first {rowsMax} of {formatCount(rows.length)} series.
        </p>
      )}
    </div>
  );
}

/** Points lists the newest points of a series. */
function Points({ series }: { series: Series }) {
  const first = Math.max(0, series.times.length - rowsMax);
  return (
    <div class="points">
      {first > 0 && (
        <p class="note">
          The newest {rowsMax} of {formatCount(series.times.length)} points.
        </p>
      )}
      <ol>
        {series.times
          .slice(first)
          .map((time, i) => ({ time, value: series.values[first + i] ?? null }))
          .reverse()
          .map(({ time, value }) => (
            <li key={time}>
              <time>{formatTime(time)}</time> <b>{value === null ? "no number" : String(value)}</b>
            </li>
          ))}
      </ol>
    </div>
  );
}

/** PlainTable shows an answer that is no series over time. */
export function PlainTable({ table }: { table: Table }) {
  return (
    <div class="scroll">
      <table>
        {table.title !== "" && <caption>{table.title}</caption>}
        <thead>
          <tr>
            {table.columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.slice(0, rowsMax).map((row, i) => (
            <tr key={i}>
              {row.map((cell, c) => (
                <td key={c} class="mono">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length > rowsMax && (
        <p class="note">
          The first {rowsMax} of {formatCount(table.rows.length)} rows.
        </p>
      )}
    </div>
  );
}
