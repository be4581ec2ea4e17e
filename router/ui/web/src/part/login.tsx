import { useState } from "preact/hooks";
import { authorizationOf, keepAuthorization } from "../data/credentials";
import { Dialog } from "./dialog";

/** Login asks who is there: a user with a password, or a token. */
export function Login({ close, done }: { close: () => void; done: () => void }) {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [token, setToken] = useState("");
  return (
    <Dialog title="Sign in" close={close}>
      <form
        class="login"
        onSubmit={(event) => {
          event.preventDefault();
          keepAuthorization(authorizationOf(user, password, token));
          done();
        }}
      >
        <p class="note">The server wants to know who asks. This is kept until the tab is closed.</p>
        <label>
          User
          <input autocomplete="username" value={user} onInput={(event) => setUser(event.currentTarget.value)} />
        </label>
        <label>
          Password
          <input
            type="password"
            autocomplete="current-password"
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
        </label>
        <p class="or">or</p>
        <label>
          Token
          <input
            type="password"
            autocomplete="off"
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="main" disabled={user === "" && token.trim() === ""}>
          Sign in
        </button>
      </form>
    </Dialog>
  );
}
