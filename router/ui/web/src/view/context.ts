import type { Route } from "../data/route";
import type { DialectName } from "../dialect/dialect";

/** About is what /ui/api/about tells. */
export interface About {
  version: string;
  dialects: string[];
  database: string;
  user: string;
  admin: boolean;
}

/** What every view gets. */
export interface ViewProps {
  about: About;
  dialects: DialectName[];
  database: string;
  dark: boolean;
  route: Route;
  go: (route: Route, options?: { replace?: boolean }) => void;
}
