/**
 * The proxy that the environment names: whether it lets a machine through to its control plane. A proxy that somebody
 * has forgotten, or that refuses, looks like a network that is down.
 */

import { type Clock, deadline } from "../../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import type { Environment } from "../../../lib/base/host.ts";
import type { Examination } from "../../../lib/machine/diagnostics/doctor.ts";
import { connectThrough, type HostPort, proxyOf } from "../../../lib/wire/grpc/proxy.ts";

const ANSWER_MS = 10_000;
const NAMES = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "SOCKS_PROXY"];
/** A name that no NO_PROXY has, for a device without a control plane. */
const ANYWHERE = "https://anywhere.invalid";

/** `undefined` without a proxy. `address`: that of the control plane, if there is one. */
export async function examineProxy(
  host: Environment,
  clock: Clock,
  address: string | undefined,
): Promise<Examination | undefined> {
  const subject = "proxy";
  const set = NAMES.flatMap((name) => [name, name.toLowerCase()]).filter((name) => host.env(name));
  const remedy = `correct or unset ${set.join(", ")}; a service has its own in /etc/default/svc-agent`;
  try {
    const [target, secure] = targetOf(address ?? ANYWHERE);
    const proxy = proxyOf(target, secure, (name) => host.env(name));
    if (proxy === undefined) return undefined;
    const named = `${proxy.host}:${proxy.port} (${set.join(", ")})`;
    if (address === undefined) {
      return { subject, outcome: "note", found: `${named}; --config FILE tries it with a control plane` };
    }
    const late = () => new SvcError("deadline_exceeded", `the proxy ${named} does not answer`);
    const limit = deadline(clock, ANSWER_MS, late);
    try {
      (await connectThrough(proxy, target, limit.signal, clock)).destroy();
    } finally {
      limit.done();
    }
    return { subject, outcome: "ok", found: `${named} leads to ${target.host}:${target.port}` };
  } catch (error) {
    return { subject, outcome: "problem", found: chainOf(error), remedy };
  }
}

function targetOf(address: string): readonly [HostPort, secure: boolean] {
  const { protocol, hostname, port } = new URL(/^\w+:\/\//.test(address) ? address : `https://${address}`);
  const secure = protocol !== "http:";
  return [{ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || (secure ? 443 : 80)) }, secure];
}
