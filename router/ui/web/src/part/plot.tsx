import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { aligned, type Columns, reachMax, stackedColumns, valueNear } from "../data/align";
import { timeLabels } from "../data/axis";
import { formatTime } from "../data/format";
import type { Range } from "../data/range";
import { formatUnit, type Unit } from "../data/unit";
import { type Series, seriesName } from "../dialect/result";
import { Legend } from "./legend";
import { inkOf } from "./palette";

/** So many lines are drawn; of more nobody sees anything. */
export const linesMax = 200;
const height = 320;
/** So many values the box at the pointer has. */
const tipsMax = 12;

/** How lines are drawn. */
export const draws = ["lines", "stacked", "log"] as const;
export type Draw = (typeof draws)[number];

interface Props {
  series: Series[];
  range: Range;
  draw: Draw;
  unit: Unit;
  dark: boolean;
  zoom: (range: Range) => void;
}

/** Labels of an axis of bytes lie on round sizes. */
const powersOfTwo = Array.from({ length: 60 }, (_, power) => 2 ** power);

/** Pointer is where the pointer is over the plot. */
interface Pointer {
  index: number;
  left: number;
  top: number;
  /** The value at its height. */
  value: number;
}

/** options are those of uPlot for the lines. */
function options(props: {
  series: Series[];
  hidden: Set<string>;
  range: Range;
  draw: Draw;
  unit: Unit;
  dark: boolean;
  width: number;
  zoom: (range: Range) => void;
  hover: (pointer: Pointer | null) => void;
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
  const shown = props.series.map((s, i) => ({ s, i })).filter(({ s }) => !props.hidden.has(seriesName(s)));
  const stacked = props.draw === "stacked";
  const isBytes = props.unit === "bytes" || props.unit === "bytes/s";
  return {
    width: props.width,
    height,
    ms: 1,
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 }, focus: { prox: 24 } },
    focus: { alpha: stacked ? 1 : 0.35 },
    scales: {
      x: { time: true, range: [props.range.fromMs, props.range.toMs] },
      y:
        props.draw === "log"
          ? { distr: 3, log: 10 }
          : stacked
            ? { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 0] }
            : {},
    },
    axes: [
      { ...axis, space: 70, size: 44, values: (_, splits, _axis, _space, incr) => timeLabels(splits, incr) },
      {
        ...axis,
        size: props.unit === "none" ? 62 : 84,
        ...(isBytes && props.draw !== "log" ? { incrs: powersOfTwo } : {}),
        values: (_, splits) => splits.map((v) => (v === null ? "" : formatUnit(v, props.unit))),
      },
    ],
    // Each is filled down to the one below it.
    bands: stacked ? shown.slice(1).map(({ i }, k) => ({ series: [i + 1, (shown[k]?.i ?? 0) + 1] })) : [],
    series: [
      {},
      ...props.series.map((s, i) => {
        const ink = inkOf(i, props.dark);
        return {
          label: seriesName(s),
          stroke: ink.colour,
          width: 1.75,
          dash: ink.dash,
          show: !props.hidden.has(seriesName(s)),
          points: { show: few, size: 5 },
          ...(stacked ? { fill: `${ink.colour}55` } : {}),
        } satisfies uPlot.Series;
      }),
    ],
    hooks: {
      setCursor: [
        (u) => {
          const { idx: index, left = -1, top = -1 } = u.cursor;
          props.hover(
            index === null || index === undefined || left < 0
              ? null
              : { index, left: left + u.over.offsetLeft, top: top + u.over.offsetTop, value: u.posToVal(top, "y") },
          );
        },
      ],
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

/** Plot draws lines over time, with a box of the values under the pointer and a legend. */
export function Plot({ series, range, draw, unit, dark, zoom }: Props) {
  const drawn = useMemo(() => series.slice(0, linesMax), [series]);
  const columns = useMemo(() => aligned(drawn), [drawn]);
  // By name, so that what is hidden stays so when the query is run again.
  const [hidden, setHidden] = useState<Set<string>>(new Set());
  const [pointer, setPointer] = useState<Pointer | null>(null);
  const holder = useRef<HTMLDivElement>(null);
  const latestZoom = useRef(zoom);
  latestZoom.current = zoom;
  const data = useMemo(() => {
    const isHidden = drawn.map((s) => hidden.has(seriesName(s)));
    if (draw === "stacked") {
      return stackedColumns(columns, isHidden);
    }
    const [times, ...values] = columns;
    // The logarithm of what is not positive is none.
    return draw === "log"
      ? ([times, ...values.map((column) => column.map((v) => (typeof v === "number" && v <= 0 ? null : v)))] as Columns)
      : columns;
  }, [columns, drawn, draw, hidden]);

  useLayoutEffect(() => {
    const element = holder.current;
    if (element === null) {
      return;
    }
    setPointer(null);
    const width = () => Math.max(element.clientWidth, 100);
    const u = new uPlot(
      options({
        series: drawn,
        hidden,
        range,
        draw,
        unit,
        dark,
        width: width(),
        zoom: (next) => latestZoom.current(next),
        hover: setPointer,
      }),
      data as uPlot.AlignedData,
      element,
    );
    const resize = new ResizeObserver(() => u.setSize({ width: width(), height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      u.destroy();
    };
  }, [data, hidden, range.fromMs, range.toMs, unit, dark]);
  // Of a query that has none of them, nothing is hidden.
  useEffect(() => {
    if (hidden.size > 0 && !drawn.some((s) => hidden.has(seriesName(s)))) {
      setHidden(new Set());
    }
  }, [drawn]);

  const toggle = (name: string, alone: boolean) => {
    const names = drawn.map(seriesName);
    const next = new Set(hidden);
    if (alone) {
      const isAlone = !hidden.has(name) && names.every((other) => other === name || hidden.has(other));
      setHidden(new Set(isAlone ? [] : names.filter((other) => other !== name)));
      return;
    }
    if (!next.delete(name)) {
      next.add(name);
    }
    setHidden(next);
  };

  return (
    <figure class="plot">
      <div class="drawn">
        <div
          ref={holder}
          class="canvas"
          role="img"
          aria-label={`Plot of ${series.length} series from ${formatTime(range.fromMs)} to ${formatTime(range.toMs)}. The table has the numbers.`}
        />
        {pointer !== null && (
          <Tip
            pointer={pointer}
            width={holder.current?.clientWidth ?? 0}
            series={drawn}
            columns={columns}
            drawnAt={data}
            hidden={hidden}
            unit={unit}
            dark={dark}
          />
        )}
      </div>
      {series.length > drawn.length && (
        <p class="note">
          The first {drawn.length} of {series.length} series are drawn; the table has all.
        </p>
      )}
      <Legend
        series={drawn}
        columns={columns}
        index={pointer?.index ?? null}
        hidden={hidden}
        unit={unit}
        dark={dark}
        toggle={toggle}
      />
    </figure>
  );
}

interface TipProps {
  pointer: Pointer;
  width: number;
  series: Series[];
  columns: Columns;
  /** Where the lines are, which is elsewhere when they are stacked. */
  drawnAt: Columns;
  hidden: Set<string>;
  unit: Unit;
  dark: boolean;
}

/** Tip has the values at the pointer's time, of the lines that are next to it where there are many. */
function Tip({ pointer, width, series, columns, drawnAt, hidden, unit, dark }: TipProps) {
  const at = (of: Columns, i: number) => valueNear(of[i + 1] ?? [], pointer.index, reachMax);
  const all = series
    .map((s, i) => ({ name: seriesName(s), i, value: at(columns, i), place: at(drawnAt, i) }))
    .filter(({ name, value }) => value !== null && !hidden.has(name))
    .sort((a, b) => Math.abs((a.place ?? 0) - pointer.value) - Math.abs((b.place ?? 0) - pointer.value));
  const nearest = all[0];
  const rows = all.slice(0, tipsMax).sort((a, b) => (b.place ?? 0) - (a.place ?? 0));
  const time = columns[0][pointer.index];
  if (nearest === undefined || time === undefined) {
    return null;
  }
  const right = pointer.left > width / 2;
  return (
    <div
      class="tip"
      aria-hidden="true"
      style={{
        top: "0.5rem",
        ...(right ? { right: `${width - pointer.left + 14}px` } : { left: `${pointer.left + 14}px` }),
      }}
    >
      <p>{formatTime(time)}</p>
      <ul>
        {rows.map(({ name, i, value }) => (
          <li key={i} class={i === nearest.i ? "nearest" : ""}>
            <span class="ink" style={{ background: inkOf(i, dark).colour }} />
            <span class="name">{name}</span>
            <b>{formatUnit(value, unit)}</b>
          </li>
        ))}
      </ul>
      {all.length > rows.length && <p>and {all.length - rows.length} more</p>}
    </div>
  );
}
