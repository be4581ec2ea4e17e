import { useEffect, useRef } from "preact/hooks";
import type { ViewName } from "../data/route";
import { Dialog } from "./dialog";

const rows: [string, string][] = [
  ["Ctrl Enter", "run the query"],
  ["Ctrl Space", "propose names and words"],
  ["Tab, Enter", "take the proposal; arrows choose, Escape closes"],
  ["/", "go to the query, or to the search"],
  ["g q", "Query"],
  ["g e", "Explore"],
  ["g a", "rules and alerts"],
  ["g c", "Cluster"],
  ["g s", "running and slow queries"],
  ["t", "light or dark"],
  ["?", "these keys"],
];

/** Keys says which keys do what. */
export function Keys({ close }: { close: () => void }) {
  return (
    <Dialog title="Keys" close={close}>
      <table class="keys">
        <tbody>
          {rows.map(([keys, what]) => (
            <tr key={keys}>
              <th scope="row">
                <kbd>{keys}</kbd>
              </th>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}

const viewKeys: Record<string, ViewName> = { q: "query", e: "explore", a: "alerts", c: "cluster", s: "queries" };
const secondKeyMs = 1500;

/** useKeys acts on keys that are pressed outside of fields. */
export function useKeys(acts: { open: (view: ViewName) => void; help: () => void; toggle: () => void }): void {
  const latest = useRef(acts);
  latest.current = acts;
  useEffect(() => {
    let g = -secondKeyMs;
    const onKeyDown = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        target.closest("input, textarea, select, dialog, [contenteditable]")
      ) {
        return;
      }
      const view = event.timeStamp - g < secondKeyMs ? viewKeys[event.key] : undefined;
      g = event.key === "g" ? event.timeStamp : -secondKeyMs;
      if (view !== undefined) {
        latest.current.open(view);
      } else if (event.key === "?") {
        latest.current.help();
      } else if (event.key === "t") {
        latest.current.toggle();
      } else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLElement>("[data-focus=main]")?.focus();
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}
