import { useEffect, useRef, useState } from "preact/hooks";
import { keepAuthorization, readAuthorization } from "./data/credentials";
import { type Loaded, useLoaded, useRoute } from "./data/hooks";
import { askJSON, onRefused } from "./data/http";
import { readTheme, type Theme, writeTheme } from "./data/kept";
import type { ViewName } from "./data/route";
import { knownDialects } from "./dialect/dialect";
import { Keys, useKeys } from "./part/keys";
import { Login } from "./part/login";
import { Notice } from "./part/notice";
import { AlertsView } from "./view/alerts";
import { ClusterView } from "./view/cluster";
import type { About } from "./view/context";
import { ExploreView } from "./view/explore";
import { QueriesView } from "./view/queries";
import { QueryView } from "./view/query";

const titles: Record<ViewName, string> = {
  query: "Query",
  explore: "Explore",
  alerts: "Alerts",
  cluster: "Cluster",
  queries: "Queries",
};
const views = {
  query: QueryView,
  explore: ExploreView,
  alerts: AlertsView,
  cluster: ClusterView,
  queries: QueriesView,
};

/** useDark says whether the page is dark, and follows the system unless it was chosen. */
function useDark(theme: Theme): boolean {
  const [system, setSystem] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => setSystem(query.matches);
    query.addEventListener("change", follow);
    return () => query.removeEventListener("change", follow);
  }, []);
  return theme === "system" ? system : theme === "dark";
}

/** App is the page: its head, and the view that the address names. */
export function App() {
  const [route, go] = useRoute();
  const [theme, setTheme] = useState<Theme>(readTheme);
  const [help, setHelp] = useState(false);
  const [login, setLogin] = useState(false);
  const [turn, setTurn] = useState(0);
  const dark = useDark(theme);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const toggle = () => {
    const next = dark ? "light" : "dark";
    setTheme(next);
    writeTheme(next);
  };
  const again = () => setTurn(turn + 1);
  useEffect(() => onRefused(() => setLogin(true)), []);
  const database = route.params.db ?? "";
  const about = useLoaded(`${turn} ${database}`, (signal) =>
    askJSON<About>("about", database === "" ? {} : { db: database }, { signal }),
  );
  const databases = useLoaded(String(turn), (signal) => askJSON<{ names: string[] }>("databases", {}, { signal }));
  // Who may not read the default database begins with the first one that may be read.
  const readable = databases.value?.names ?? [];
  useEffect(() => {
    const [first] = readable;
    if (database === "" && about.value !== null && first !== undefined && !readable.includes(about.value.database)) {
      go({ view: route.view, params: { ...route.params, db: first } }, { replace: true });
    }
  }, [databases.value, about.value]);
  // Who comes back to the queries finds what was asked there, and its answer.
  const lastQuery = useRef<Record<string, string>>({});
  if (route.view === "query") {
    lastQuery.current = route.params;
  }
  const open = (view: ViewName) =>
    go({ view, params: { ...(view === "query" && route.view !== "query" ? lastQuery.current : {}), db: database } });
  useKeys({ open, help: () => setHelp(true), toggle });
  useEffect(() => {
    document.title = `${titles[route.view]} · TickMesh`;
  }, [route.view]);
  const View = views[route.view];
  return (
    <>
      <Head view={route.view} open={open} dark={dark} toggle={toggle} help={() => setHelp(true)} about={about}>
        <DatabaseSwitch
          names={databases.value?.names ?? []}
          chosen={database === "" ? (about.value?.database ?? "default") : database}
          choose={(db) => go({ view: route.view, params: { ...route.params, metric: "", db } })}
        />
        <User name={about.value?.user ?? ""} signIn={() => setLogin(true)} />
      </Head>
      <main key={turn}>
        {about.error !== null && <Notice kind="error">{about.error}</Notice>}
        {about.value !== null && (
          <View
            about={about.value}
            dialects={knownDialects(about.value.dialects)}
            database={database}
            dark={dark}
            route={route}
            go={go}
          />
        )}
      </main>
      {help && <Keys close={() => setHelp(false)} />}
      {login && (
        <Login
          close={() => setLogin(false)}
          done={() => {
            setLogin(false);
            again();
          }}
        />
      )}
    </>
  );
}

interface HeadProps {
  view: ViewName;
  open: (view: ViewName) => void;
  dark: boolean;
  toggle: () => void;
  help: () => void;
  about: Loaded<About>;
  children: preact.ComponentChildren;
}

function Head({ view, open, dark, toggle, help, about, children }: HeadProps) {
  return (
    <header class="head">
      <a class="logo" href="#/query" title={about.value === null ? "TickMesh" : `TickMesh ${about.value.version}`}>
        <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
          <rect width="32" height="32" rx="7" />
          <path d="M5 20l5-8 5 6 4-10 4 9 4-4" />
        </svg>
        <span>TickMesh</span>
      </a>
      <nav aria-label="Views">
        {(Object.keys(titles) as ViewName[]).map((name) => (
          <a
            key={name}
            href={`#/${name}`}
            aria-current={name === view ? "page" : undefined}
            onClick={(event) => {
              if (!event.ctrlKey && !event.metaKey && !event.shiftKey) {
                event.preventDefault();
                open(name);
              }
            }}
          >
            {titles[name]}
          </a>
        ))}
      </nav>
      <div class="tools">
        {children}
        <button
          type="button"
          aria-label={dark ? "Light colours" : "Dark colours"}
          title={dark ? "Light colours" : "Dark colours"}
          onClick={toggle}
        >
          {dark ? "☀" : "☾"}
        </button>
        <button type="button" aria-label="Keys" title="Keys" onClick={help}>
          ?
        </button>
      </div>
    </header>
  );
}

function DatabaseSwitch({ names, chosen, choose }: { names: string[]; chosen: string; choose: (db: string) => void }) {
  if (names.length < 2 && chosen === "default" && (names[0] ?? chosen) === chosen) {
    return null;
  }
  const all = names.includes(chosen) ? names : [chosen, ...names];
  return (
    <select aria-label="Database" value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
      {all.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

/** User names who asks, where the server knows, and lets somebody else ask. */
function User({ name, signIn }: { name: string; signIn: () => void }) {
  return (
    <>
      {name !== "" && (
        <button type="button" class="user" title={`${name}: sign in as somebody else`} onClick={signIn}>
          {name}
        </button>
      )}
      {readAuthorization() !== null && (
        <button
          type="button"
          onClick={() => {
            keepAuthorization(null);
            location.reload();
          }}
        >
          Sign out
        </button>
      )}
    </>
  );
}
