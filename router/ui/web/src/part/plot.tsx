import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { aligned, type Columns, valueNear } from "../data/align";
import { timeLabels } from "../data/axis";
import { formatNumber, formatTime } from "../data/format";
import type { Range } from "../data/range";
import { type Series, seriesName } from "../dialect/result";
import { inkOf } from "./palette";

/** So many lines are drawn; of more nobody sees anything. */
export const linesMax = 200;
const height = 320;

interface Props {
  series: Series[];
  range: Range;
  dark: boolean;
  zoom: (range: Range) => void;
}

/** options are those of uPlot for the lines. */
function options(props: {
  series: Series[];
  hidden: Set<number>;
  range: Range;
  dark: boolean;
  width: number;
  zoom: (range: Range) => void;
  hover: (index: number | null) => void;
}): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis: uPlot.Axis = {
    stroke: colour("--soft"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1, size: 4 },
    font: "12px system-ui, sans-serif",
  };
  // A few points are shown as such: one alone makes no line.
  const few = props.series.every((s) => s.times.length < 60);
  return {
    width: props.width,
    height,
    ms: 1,
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 }, focus: { prox: 24 } },
    focus: { alpha: 0.35 },
    scales: { x: { time: true, range: [props.range.fromMs, props.range.toMs] } },
    axes: [
      { ...axis, space: 70, size: 44, values: (_, splits, _axis, _space, incr) => timeLabels(splits, incr) },
      {
        ...axis,
        size: 62,
        values: (_, splits) => splits.map((v) => (v === null ? "" : formatNumber(v))),
      },
    ],
    series: [
      {},
      ...props.series.map((s, i) => {
        const ink = inkOf(i, props.dark);
        return {
          label: seriesName(s),
          stroke: ink.colour,
          width: 1.75,
          dash: ink.dash,
          show: !props.hidden.has(i),
          points: { show: few, size: 5 },
        } satisfies uPlot.Series;
      }),
    ],
    hooks: {
      setCursor: [(u) => props.hover(u.cursor.idx ?? null)],
      setSelect: [
        (u) => {
          if (u.select.width > 4) {
            const fromMs = Math.round(u.posToVal(u.select.left, "x"));
            const toMs = Math.round(u.posToVal(u.select.left + u.select.width, "x"));
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            if (toMs - fromMs >= 1) {
              props.zoom({ fromMs, toMs });
            }
          }
        },
      ],
    },
  };
}

/** Plot draws lines over time, with a legend that shows the values under the pointer. */
export function Plot({ series, range, dark, zoom }: Props) {
  const drawn = useMemo(() => series.slice(0, linesMax), [series]);
  const columns = useMemo(() => aligned(drawn), [drawn]);
  const [hidden, setHidden] = useState<Set<number>>(new Set());
  const [index, setIndex] = useState<number | null>(null);
  const holder = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latestZoom = useRef(zoom);
  latestZoom.current = zoom;

  useEffect(() => setHidden(new Set()), [series]);
  useLayoutEffect(() => {
    const element = holder.current;
    if (element === null) {
      return;
    }
    const u = new uPlot(
      options({
        series: drawn,
        hidden,
        range,
        dark,
        width: Math.max(element.clientWidth, 100),
        zoom: (next) => latestZoom.current(next),
        hover: setIndex,
      }),
      columns as uPlot.AlignedData,
      element,
    );
    chart.current = u;
    const resize = new ResizeObserver(() => u.setSize({ width: Math.max(element.clientWidth, 100), height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      chart.current = null;
      u.destroy();
    };
  }, [columns, range.fromMs, range.toMs, dark, hidden]);

  const toggle = (i: number, alone: boolean) => {
    const next = new Set(hidden);
    if (alone) {
      const isAlone = !hidden.has(i) && hidden.size === drawn.length - 1;
      next.clear();
      if (!isAlone) {
        for (let other = 0; other < drawn.length; other++) {
          if (other !== i) {
            next.add(other);
          }
        }
      }
    } else if (!next.delete(i)) {
      next.add(i);
    }
    setHidden(next);
  };

  return (
    <figure class="plot">
      <div
        ref={holder}
        class="canvas"
        role="img"
        aria-label={`Plot of ${series.length} series from ${formatTime(range.fromMs)} to ${formatTime(range.toMs)}. The table has the numbers.`}
      />
      {series.length > drawn.length && (
        <p class="note">
          The first {drawn.length} of {series.length} series are drawn; the table has all.
        </p>
      )}
      <Legend series={drawn} columns={columns} index={index} hidden={hidden} dark={dark} toggle={toggle} />
    </figure>
  );
}

interface LegendProps {
  series: Series[];
  columns: Columns;
  index: number | null;
  hidden: Set<number>;
  dark: boolean;
  toggle: (index: number, alone: boolean) => void;
}

/** Legend names the lines. Its first row says for when its values are. */
function Legend({ series, columns, index, hidden, dark, toggle }: LegendProps) {
  const times = columns[0];
  const time = index === null ? undefined : times[index];
  return (
    <figcaption class="legend">
      <p class="note">
        {time === undefined
          ? "Newest values. Drag over the plot to zoom; click a name to hide it, Alt-click to see it alone."
          : formatTime(time)}
      </p>
      <ul>
        {series.map((s, i) => {
          const column = (columns[i + 1] ?? []) as (number | null | undefined)[];
          const value = valueNear(column, index ?? column.length - 1, index === null ? column.length : 32);
          const ink = inkOf(i, dark);
          return (
            <li key={i}>
              <button type="button" aria-pressed={!hidden.has(i)} onClick={(event) => toggle(i, event.altKey)}>
                <svg width="18" height="8" aria-hidden="true">
                  <path d="M0 4h18" stroke={ink.colour} stroke-width="3" stroke-dasharray={ink.dash.join(" ")} />
                </svg>
                <span class="name">{seriesName(s)}</span>
                <span class="number">{formatNumber(value)}</span>
              </button>
            </li>
          );
        })}
      </ul>
    </figcaption>
  );
}
