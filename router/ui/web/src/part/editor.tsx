import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { askJSON } from "../data/http";
import { applied, type Context, contextAt, type Proposal, proposals } from "../dialect/complete";
import type { Dialect } from "../dialect/dialect";

const debounceMs = 120;
const namesMax = "50";

interface Props {
  dialect: Dialect;
  database: string;
  text: string;
  /** The text that was asked last: with another one comes nothing to complete. */
  asked: string;
  setText: (text: string) => void;
  run: () => void;
  /** The line and column of what is wrong, from 1. */
  wrong: { line: number; column: number } | null;
}

interface Open {
  context: Context;
  list: Proposal[];
  chosen: number;
}

/** namesFor asks the server for what fits. */
async function namesFor(context: Context, database: string, signal: AbortSignal): Promise<string[]> {
  if (context.kind === "none") {
    return [];
  }
  const [kind, tag] = context.kind === "field" ? ["value", "_field"] : [context.kind, context.tag];
  const answer = await askJSON<{ names: string[] }>(
    "names",
    { db: database, kind, prefix: context.prefix, metric: context.metric, tag, limit: namesMax },
    { signal },
  );
  return context.kind === "field" && "value".startsWith(context.prefix) ? ["value", ...answer.names] : answer.names;
}

/** caretPlace gives line and column of the cursor, from 0. */
function caretPlace(text: string, cursor: number): { line: number; column: number } {
  const before = text.slice(0, cursor);
  return { line: before.split("\n").length - 1, column: cursor - (before.lastIndexOf("\n") + 1) };
}

/** Editor is where a query is written, with completion of names and words. */
export function Editor({ dialect, database, text, asked, setText, run, wrong }: Props) {
  const id = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  const [open, setOpen] = useState<Open | null>(null);
  const cursorAfter = useRef<number | null>(null);
  const pending = useRef<{ timer?: ReturnType<typeof setTimeout>; stop?: AbortController }>({});

  const close = () => {
    clearTimeout(pending.current.timer);
    pending.current.stop?.abort();
    setOpen(null);
  };
  useEffect(() => close, []);
  useEffect(close, [dialect, database, asked]);

  useLayoutEffect(() => {
    const element = area.current;
    if (element === null) {
      return;
    }
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight + 2, 320)}px`;
    if (cursorAfter.current !== null) {
      element.setSelectionRange(cursorAfter.current, cursorAfter.current);
      cursorAfter.current = null;
    }
  }, [text]);

  const propose = (value: string, cursor: number, asked: boolean) => {
    clearTimeout(pending.current.timer);
    pending.current.stop?.abort();
    const context = contextAt(dialect.name, value, cursor);
    const inString = /["'`]/.test(value[context.from] ?? "");
    if (!asked && context.prefix === "" && !inString && context.kind !== "tag" && context.kind !== "value") {
      setOpen(null);
      return;
    }
    const stop = new AbortController();
    pending.current.stop = stop;
    const show = (names: string[]) => {
      const list = proposals(context, names);
      const only = list[0];
      const done = list.length === 1 && only !== undefined && only.label === context.prefix;
      setOpen(list.length === 0 || done ? null : { context, list, chosen: 0 });
    };
    pending.current.timer = setTimeout(
      () =>
        namesFor(context, database, stop.signal).then(
          (names) => !stop.signal.aborted && show(names),
          () => !stop.signal.aborted && show([]), // words of the language are known all the same
        ),
      asked ? 0 : debounceMs,
    );
  };

  const accept = (proposal: Proposal) => {
    const element = area.current;
    if (element === null || open === null) {
      return;
    }
    const next = applied(text, element.selectionStart, open.context, proposal.insert);
    cursorAfter.current = next.cursor;
    setOpen(null);
    setText(next.text);
    element.focus();
    if (proposal.kind === "word" && /[({:]$/.test(proposal.insert)) {
      propose(next.text, next.cursor, false);
    }
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const element = area.current;
    if (element === null) {
      return;
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      close();
      run();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      propose(text, element.selectionStart, true);
    } else if (open !== null) {
      onKeyInList(event, open);
    }
  };

  const onKeyInList = (event: KeyboardEvent, shown: Open) => {
    const move = (by: number) => {
      event.preventDefault();
      setOpen({ ...shown, chosen: (shown.chosen + by + shown.list.length) % shown.list.length });
    };
    const chosen = shown.list[shown.chosen];
    switch (event.key) {
      case "ArrowDown":
        return move(1);
      case "ArrowUp":
        return move(-1);
      case "Tab":
      case "Enter":
        if (chosen !== undefined && !event.shiftKey) {
          event.preventDefault();
          accept(chosen);
        }
        return;
      case "Escape":
        event.preventDefault();
        event.stopPropagation();
        return close();
    }
  };

  const place = open === null ? null : caretPlace(text, open.context.from);
  return (
    <div class="editor">
      <textarea
        ref={area}
        class={wrong === null ? "" : "invalid"}
        rows={2}
        spellcheck={false}
        autocapitalize="off"
        autocomplete="off"
        aria-label={`Query in ${dialect.title}`}
        aria-autocomplete="list"
        aria-haspopup="listbox"
        aria-controls={open === null ? undefined : `${id}-list`}
        aria-activedescendant={open === null ? undefined : `${id}-${open.chosen}`}
        aria-invalid={wrong !== null}
        aria-keyshortcuts="Control+Enter"
        placeholder={dialect.example}
        value={text}
        onInput={(event) => {
          const { value, selectionStart } = event.currentTarget;
          setText(value);
          propose(value, selectionStart, false);
        }}
        onKeyDown={onKeyDown}
        onBlur={close}
        data-focus="main"
      />
      {open !== null && place !== null && (
        <ul
          id={`${id}-list`}
          class="proposals"
          role="listbox"
          aria-label="Completions"
          style={{ top: `calc(${place.line + 1} * 1.5em + 0.75rem)`, left: `min(${place.column}ch, 100% - 17rem)` }}
        >
          {open.list.map((proposal, i) => (
            <li
              key={proposal.kind + proposal.label}
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === open.chosen}
              ref={(element) => {
                if (i === open.chosen) {
                  element?.scrollIntoView({ block: "nearest" });
                }
              }}
              onPointerDown={(event) => {
                event.preventDefault();
                accept(proposal);
              }}
            >
              <span>{proposal.label}</span>
              <small>{proposal.kind}</small>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
