import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Dialog is a window over the page, which Escape closes. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog
      ref={element}
      aria-label={title}
      onClose={close}
      onClick={(event) => event.target === element.current && element.current?.close()}
    >
      <div class="inside">
        <header>
          <h2>{title}</h2>
          <button type="button" class="plain" aria-label="Close" onClick={() => element.current?.close()}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
