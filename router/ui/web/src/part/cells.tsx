import { useId, useRef } from "preact/hooks";
import {
  arrivedPath,
  type CellState,
  cellStates,
  cellTexts,
  columnsFor,
  countsOf,
  crossPath,
  gridPath,
  leavingPath,
  type Moving,
} from "../data/cluster";

interface Props {
  node: string;
  cells: CellState[];
  moving: Moving;
  shard: number | null;
  setShard: (shard: number | null) => void;
}

/** sides are the sizes of squares in a field of 10; what is not here is a dot. */
const sides: Record<CellState, number> = { lead: 9, copy: 9, witness: 7, joining: 8, silent: 9, headless: 9, none: 3 };

/** Cells draws what a node is to each shard. One path for each state: a thousand shards cost no more elements. */
export function Cells({ node, cells, moving, shard, setShard }: Props) {
  const id = useId();
  const picture = useRef<SVGSVGElement>(null);
  const columns = columnsFor(cells.length);
  const rows = Math.ceil(cells.length / columns);
  const counts = countsOf(cells);
  const text = cellStates
    .filter((state) => counts[state] > 0)
    .map((state) => `${cellTexts[state].name.toLowerCase()}: ${counts[state]}`)
    .join(", ");
  const at = (event: PointerEvent) => {
    const box = picture.current?.getBoundingClientRect();
    if (box === undefined || box.width === 0) {
      return;
    }
    const x = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const y = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const chosen = y * columns + x;
    setShard(x >= 0 && x < columns && chosen >= 0 && chosen < cells.length ? chosen : null);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setShard(shard === null ? 0 : Math.min(Math.max(shard + step, 0), cells.length - 1));
    } else if (event.key === "Escape") {
      setShard(null);
    }
  };
  return (
    <div
      class="cells"
      tabIndex={0}
      role="application"
      aria-roledescription="field of shards"
      aria-label={`Shards on ${node}. ${text}. Arrow keys choose a shard.`}
      aria-describedby={id}
      onKeyDown={onKeyDown}
      onPointerMove={at}
      onPointerDown={at}
      onPointerLeave={() => setShard(null)}
    >
      <span id={id} class="unseen" aria-live="polite">
        {shard === null ? "" : `Shard ${shard}: ${cellTexts[cells[shard] ?? "none"].name}`}
      </span>
      <svg ref={picture} viewBox={`0 0 ${columns * 10} ${rows * 10}`} aria-hidden="true">
        {cellStates.map((state) => (
          <path
            key={state}
            class={`cell ${state}`}
            data-count={counts[state]}
            d={gridPath(cells, state, columns, sides[state])}
          />
        ))}
        <path class="arrived" d={arrivedPath(moving, node, columns)} />
        <path class="cross" d={crossPath(cells, ["silent", "headless"], columns)} />
        <path class="leaving" d={leavingPath(moving.moves, node, columns)} />
        {shard !== null && shard < cells.length && (
          <rect class="ring" x={(shard % columns) * 10} y={Math.floor(shard / columns) * 10} width="10" height="10" />
        )}
      </svg>
    </div>
  );
}

/** CellMark is one cell, for the legend. */
export function CellMark({ state }: { state: CellState }) {
  return (
    <svg class="mark" viewBox="0 0 10 10" width="14" height="14" aria-hidden="true">
      <path class={`cell ${state}`} d={gridPath([state], state, 1, sides[state])} />
      {state === "joining" && <path class="arrived" d="M1 5h8v4h-8z" />}
      <path class="cross" d={crossPath([state], ["silent", "headless"], 1)} />
    </svg>
  );
}
