import { keptMs, type Rate } from "../data/rates";

const width = 120;
const height = 28;

/** sparkPath gives the line of rates by time, the newest at the right edge. A gap is a gap. */
export function sparkPath(rates: Rate[], most: number): string {
  const end = rates.at(-1)?.timeMs ?? 0;
  let path = "";
  let pen = false;
  for (const { timeMs, value } of rates) {
    const x = width - ((end - timeMs) * width) / keptMs;
    if (value === null || x < 0) {
      pen = false;
      continue;
    }
    const y = height - 2 - (most === 0 ? 0 : (value / most) * (height - 4));
    path += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  }
  return path;
}

/** Spark draws the rates of the last minutes. */
export function Spark({ rates, label }: { rates: Rate[]; label: string }) {
  const most = Math.max(0, ...rates.map((rate) => rate.value ?? 0));
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="base" d={`M0 ${height - 2}H${width}`} />
      <path class="rate" d={sparkPath(rates, most)} />
    </svg>
  );
}
