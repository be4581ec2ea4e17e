import { useMemo, useState } from "preact/hooks";
import { type Columns, reachMax, summary, valueNear } from "../data/align";
import { formatTime } from "../data/format";
import { formatUnit, type Unit } from "../data/unit";
import { type Series, seriesName } from "../dialect/result";
import { inkOf } from "./palette";

const figures = ["last", "min", "mean", "max"] as const;
type Figure = (typeof figures)[number];
const titles: Record<Figure, string> = { last: "Newest", min: "Min", mean: "Mean", max: "Max" };

interface Props {
  series: Series[];
  columns: Columns;
  /** Where the pointer is; null: nowhere. */
  index: number | null;
  hidden: Set<string>;
  unit: Unit;
  dark: boolean;
  toggle: (name: string, alone: boolean) => void;
}

/** Legend names the lines, with figures of each. Its first row says for when its values are. */
export function Legend({ series, columns, index, hidden, unit, dark, toggle }: Props) {
  const [sort, setSort] = useState<{ by: Figure; down: boolean } | null>(null);
  const rows = useMemo(() => {
    const all = series.map((s, i) => ({ i, name: seriesName(s), ...summary(s.values) }));
    if (sort !== null) {
      // Those without a number are last.
      const missing = sort.down ? -Infinity : Infinity;
      all.sort((a, b) => ((a[sort.by] ?? missing) - (b[sort.by] ?? missing)) * (sort.down ? -1 : 1) || a.i - b.i);
    }
    return all;
  }, [series, sort]);
  const time = index === null ? undefined : columns[0][index];
  return (
    <figcaption class="legend">
      <p class="note">
        {time === undefined
          ? "Drag over the plot to zoom; click a name to hide it, Ctrl-click or Alt-click to see it alone."
          : formatTime(time)}
      </p>
      <div class="rows">
        <table>
          <thead>
            <tr>
              <th scope="col">Series</th>
              {figures.map((figure) => (
                <th
                  key={figure}
                  scope="col"
                  class={`number ${figure}`}
                  aria-sort={sort?.by !== figure ? "none" : sort.down ? "descending" : "ascending"}
                >
                  <button
                    type="button"
                    class="plain"
                    onClick={() => setSort({ by: figure, down: sort?.by !== figure || !sort.down })}
                  >
                    {figure === "last" && time !== undefined ? "Here" : titles[figure]}
                    <span aria-hidden="true">{sort?.by !== figure ? "" : sort.down ? " ↓" : " ↑"}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => {
              const ink = inkOf(row.i, dark);
              const here = index === null ? row.last : valueNear(columns[row.i + 1] ?? [], index, reachMax);
              return (
                <tr key={row.i}>
                  <th scope="row">
                    <button
                      type="button"
                      class="plain"
                      aria-pressed={!hidden.has(row.name)}
                      onClick={(event) => toggle(row.name, event.altKey || event.ctrlKey || event.metaKey)}
                    >
                      <svg width="18" height="8" aria-hidden="true">
                        <path d="M0 4h18" stroke={ink.colour} stroke-width="3" stroke-dasharray={ink.dash.join(" ")} />
                      </svg>
                      <span class="name">{row.name}</span>
                    </button>
                  </th>
                  {figures.map((figure) => (
                    <td key={figure} class={`number ${figure}`}>
                      {formatUnit(figure === "last" ? here : row[figure], unit)}
                    </td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </figcaption>
  );
}
