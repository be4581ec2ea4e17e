import { useEffect, useRef, useState } from "preact/hooks";
import { formatTime } from "../data/format";
import { chosenRange, parseSpan, presets, type Range, shifted, widened } from "../data/range";

interface Props {
  /** As in the address: a span until now, or a moment. */
  from: string;
  to: string;
  range: Range;
  choose: (from: string, to: string) => void;
}

/** RangePicker chooses the range of time: until now, or between two moments. */
export function RangePicker({ from, to, range, choose }: Props) {
  const [open, setOpen] = useState(false);
  const holder = useRef<HTMLDivElement>(null);
  const relative = parseSpan(from) !== null;
  const chosen = relative ? from : to === "" ? "1h" : "";
  useEffect(() => {
    if (!open) {
      return;
    }
    const closeOutside = (event: Event) => {
      if (event.target instanceof globalThis.Node && !holder.current?.contains(event.target)) {
        setOpen(false);
      }
    };
    addEventListener("pointerdown", closeOutside);
    return () => removeEventListener("pointerdown", closeOutside);
  }, [open]);
  const absolute = (next: Range) => choose(String(next.fromMs), String(next.toMs));
  return (
    <div
      class="range"
      ref={holder}
      onKeyDown={(event) => {
        if (event.key === "Escape" && open) {
          event.stopPropagation();
          setOpen(false);
        }
      }}
    >
      <div class="choices" role="group" aria-label="Range of time until now">
        {presets.map((preset) => (
          <button type="button" key={preset} aria-pressed={chosen === preset} onClick={() => choose(preset, "")}>
            {preset}
          </button>
        ))}
      </div>
      <div class="choices" role="group" aria-label="Move the range">
        <button type="button" aria-label="Earlier" title="Earlier" onClick={() => absolute(shifted(range, -1))}>
          ←
        </button>
        <button
          type="button"
          aria-label="Later"
          title="Later"
          disabled={relative}
          onClick={() => absolute(shifted(range, 1))}
        >
          →
        </button>
        <button
          type="button"
          aria-label="Zoom out"
          title="Zoom out"
          onClick={() => absolute(widened(range, Date.now()))}
        >
          −
        </button>
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
          From … to
        </button>
      </div>
      {open && (
        <Moments
          from={relative ? `now-${from}` : formatTime(range.fromMs)}
          to={relative || to === "" ? "now" : formatTime(range.toMs)}
          choose={(nextFrom, nextTo) => {
            choose(nextFrom, nextTo);
            setOpen(false);
          }}
        />
      )}
      {!relative && to !== "" && (
        <p class="note">
          {formatTime(range.fromMs)} – {formatTime(range.toMs)}
        </p>
      )}
    </div>
  );
}

interface MomentsProps {
  from: string;
  to: string;
  choose: (from: string, to: string) => void;
}

/** Moments takes the ends of a range as people write them. */
function Moments({ from: fromFirst, to: toFirst, choose }: MomentsProps) {
  const [from, setFrom] = useState(fromFirst);
  const [to, setTo] = useState(toFirst);
  const chosen = chosenRange(from, to, Date.now());
  return (
    <form
      class="popup"
      onSubmit={(event) => {
        event.preventDefault();
        if (chosen !== null) {
          choose(chosen.from, chosen.to);
        }
      }}
    >
      <label>
        From
        <input type="text" spellcheck={false} value={from} onInput={(event) => setFrom(event.currentTarget.value)} />
      </label>
      <label>
        To
        <input type="text" spellcheck={false} value={to} onInput={(event) => setTo(event.currentTarget.value)} />
      </label>
      <p class="note">
        now, now-3h, 2026-11-28 07:00 (here), 2026-11-28 07:00Z (UTC), or Unix seconds or milliseconds.
      </p>
      {chosen === null && <p class="note wrong">This is no range: the second moment has to be after the first one.</p>}
      <button type="submit" class="main" disabled={chosen === null}>
        Use
      </button>
    </form>
  );
}
