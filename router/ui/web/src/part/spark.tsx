import { samplesMax } from "../data/rates";

const width = 120;
const height = 28;

/** sparkPath gives the line of rates, the newest at the right edge. A gap is a gap. */
export function sparkPath(rates: (number | null)[], most: number): string {
  let path = "";
  let pen = false;
  rates.forEach((rate, i) => {
    if (rate === null) {
      pen = false;
      return;
    }
    const x = width - ((rates.length - 1 - i) * width) / (samplesMax / 2 - 1);
    if (x < 0) {
      return;
    }
    const y = height - 2 - (most === 0 ? 0 : (rate / most) * (height - 4));
    path += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  });
  return path;
}

/** Spark draws the rates of the last minutes. */
export function Spark({ rates, label }: { rates: (number | null)[]; label: string }) {
  const shown = rates.slice(-samplesMax / 2);
  const most = Math.max(0, ...shown.map((rate) => rate ?? 0));
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="base" d={`M0 ${height - 2}H${width}`} />
      <path class="rate" d={sparkPath(shown, most)} />
    </svg>
  );
}
