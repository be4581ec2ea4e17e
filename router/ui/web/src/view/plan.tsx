import { useLoaded } from "../data/hooks";
import { ask } from "../data/http";
import { plansOf } from "../data/plan";
import { type Asked, requestOf } from "../data/run";
import { Notice } from "../part/notice";
import { PlainTable } from "../part/tables";

/** PlanView shows what a query would read, without running it. */
export function PlanView({ asked }: { asked: Asked }) {
  const { path, params } = requestOf(asked);
  params.set("explain", "true");
  const plans = useLoaded(`${path}?${params}`, async (signal) =>
    plansOf(JSON.parse((await ask(path, params, { signal })).text)),
  );
  if (plans.error !== null) {
    return <Notice kind="error">{plans.error}</Notice>;
  }
  return (
    <>
      {plans.value?.length === 0 && <p class="empty">There is no plan of this: it reads no series.</p>}
      {plans.value?.map((plan, i) => (
        <section class="plan" key={i} aria-label="Plan">
          <dl>
            {plan.facts.map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd class="mono">{value}</dd>
              </div>
            ))}
          </dl>
          <PlainTable table={{ title: "What is read", ...plan.reads }} />
        </section>
      ))}
    </>
  );
}
