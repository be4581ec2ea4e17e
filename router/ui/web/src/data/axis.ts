/** Labels of an axis of time. */
import { formatTime } from "./format";

const dayMs = 86400e3;

/**
 * timeLabels returns the labels of times (Unix milliseconds) that are so far apart: the
 * time of day, with the date below where it changes; dates alone where they are days apart.
 */
export function timeLabels(moments: (number | null)[], apartMs: number): string[] {
  let day = "";
  return moments.map((ms) => {
    if (ms === null) {
      return "";
    }
    const [date = "", time = ""] = formatTime(ms).split(" ");
    if (apartMs >= dayMs) {
      return date;
    }
    const clock = apartMs >= 60e3 ? time.slice(0, 5) : time;
    if (date === day) {
      return clock;
    }
    day = date;
    return `${clock}\n${date}`;
  });
}
