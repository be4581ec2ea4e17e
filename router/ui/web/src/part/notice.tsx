import type { ComponentChildren } from "preact";

/** Notice tells of something that is wrong, or of something to know. */
export function Notice({ kind, children }: { kind: "error" | "warning" | "good"; children: ComponentChildren }) {
  const sign = { error: "✕", warning: "!", good: "✓" }[kind];
  return (
    <div class={`notice ${kind}`} role={kind === "error" ? "alert" : "status"}>
      <span class="sign" aria-hidden="true">
        {sign}
      </span>
      <div>{children}</div>
    </div>
  );
}
