import { useEffect, useRef, useState } from "preact/hooks";
import { errorText, isAbort } from "./http";
import { formatHash, parseHash, type Route } from "./route";

/** useRoute follows the address, and gives a function that changes it. */
export function useRoute(): [Route, (route: Route, options?: { replace?: boolean }) => void] {
  const [route, setRoute] = useState(() => parseHash(location.hash));
  useEffect(() => {
    const follow = () => setRoute(parseHash(location.hash));
    addEventListener("popstate", follow);
    addEventListener("hashchange", follow);
    follow(); // it may have changed before anybody listened
    return () => {
      removeEventListener("popstate", follow);
      removeEventListener("hashchange", follow);
    };
  }, []);
  const go = (next: Route, options: { replace?: boolean } = {}) => {
    const hash = formatHash(next);
    if (hash !== location.hash) {
      history[options.replace ? "replaceState" : "pushState"](null, "", hash);
    }
    setRoute(next);
  };
  return [route, go];
}

/** Loaded is what has been asked for, or why it has not come. What came before stays while it is asked again. */
export interface Loaded<T> {
  value: T | null;
  error: string | null;
  loading: boolean;
}

/** useLoaded asks whenever one of the keys changes; null keys: not at all. */
export function useLoaded<T>(keys: string | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Loaded<T>>({ value: null, error: null, loading: keys !== null });
  useEffect(() => {
    if (keys === null) {
      setState({ value: null, error: null, loading: false });
      return;
    }
    const stop = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    load(stop.signal).then(
      (value) => !stop.signal.aborted && setState({ value, error: null, loading: false }),
      (error) =>
        !stop.signal.aborted && !isAbort(error) && setState({ value: null, error: errorText(error), loading: false }),
    );
    return () => stop.abort();
  }, [keys]);
  return state;
}

/** usePolled asks again and again, one request at a time, while the page is seen. */
export function usePolled<T>(
  periodMs: number,
  load: (signal: AbortSignal) => Promise<T>,
): Loaded<T> & { again: () => void } {
  const [state, setState] = useState<Loaded<T>>({ value: null, error: null, loading: true });
  const latest = useRef(load);
  latest.current = load;
  const wake = useRef<() => void>(() => {});
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = false;
    const turn = async () => {
      clearTimeout(timer);
      if (busy || stop.signal.aborted) {
        return;
      }
      if (!document.hidden) {
        busy = true;
        try {
          const value = await latest.current(stop.signal);
          if (!stop.signal.aborted) {
            setState({ value, error: null, loading: false });
          }
        } catch (error) {
          if (!stop.signal.aborted && !isAbort(error)) {
            setState((before) => ({ ...before, error: errorText(error), loading: false }));
          }
        }
        busy = false;
      }
      if (!stop.signal.aborted) {
        clearTimeout(timer);
        timer = setTimeout(turn, periodMs);
      }
    };
    wake.current = () => void turn();
    document.addEventListener("visibilitychange", turn);
    void turn();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", turn);
    };
  }, [periodMs]);
  return { ...state, again: () => wake.current() };
}
