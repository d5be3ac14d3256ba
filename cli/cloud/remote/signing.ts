/**
 * What `login` and `logout` do at a control plane elsewhere: an administrator signs in or out, and is asked for secrets.
 */

import { resolve } from "node:path";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import { shownUrl } from "../../../lib/base/log/shown_url.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import type { Host } from "../../../lib/base/host.ts";
import { Secret } from "../../../lib/base/secret.ts";
import { requireSafeWay } from "../../../lib/cloud_client/app_channel.ts";
import { chosen, DEFAULT_PROFILE, type Profile } from "../../../lib/cloud_client/profile.ts";
import { askHidden, canAsk, firstLine } from "../../terminal/asking.ts";
import { UsageError } from "../../flags.ts";
import { printResult, writeHint } from "../../table.ts";
import { openWayOutAtTerminal } from "../../way_out.ts";
import { signIn, signOut } from "./person_session.ts";
import { cloudProfiles, type NamedProfile } from "./profiles.ts";
import { sendOrder } from "./send.ts";

/** The values of the flags of `login`. */
interface LoginValues {
  readonly email: string;
  readonly apiKeyId: string;
  readonly caFile: string;
  readonly allowInsecureCreds: boolean;
  readonly profile: string;
  readonly json: boolean;
}

/** Signs in, and stores the profile. */
export async function logIn(host: Host, address: string, values: LoginValues): Promise<void> {
  const { email, apiKeyId, caFile, allowInsecureCreds, json } = values;
  if (email !== "" && apiKeyId !== "" && apiKeyId !== host.env("SVC_API_KEY_ID")?.trim()) {
    throw new UsageError("--email and --api-key-id: found both, wanted one of them");
  }
  requireSafeWay(address, allowInsecureCreds);
  await openWayOutAtTerminal(host, "svc-cloud");
  const ca = caFile === "" ? undefined : await host.readTextFile(caFile);
  const place = { address, ca };
  const baseUrl = address.trim();
  const common = { baseUrl, allowInsecureCreds, caFile: caFile ? resolve(host.cwd(), caFile) : undefined };
  const name = values.profile || DEFAULT_PROFILE;
  const who = email !== "" || apiKeyId !== "" ? { email, apiKeyId } : askedWho();
  let profile: Profile;
  if (who.email !== "") {
    const password = await askSecret(host, "SVC_CLOUD_PASSWORD", "Password: ");
    const key = await signIn(place, who.email, password);
    profile = { ...common, keyId: who.email, key, session: true, ...NO_ORGANIZATION };
  } else {
    const given = await askSecret(host, "SVC_API_KEY", "Key: ");
    // No key has blanks at its ends, but a file of variables may bring some.
    const key = new Secret(given.reveal().trim());
    profile = { ...common, keyId: who.apiKeyId, key, session: false, ...NO_ORGANIZATION };
  }

  // Only whoever may run commands has anything to do with a profile.
  await requireCommands(host, { name, profile });
  const profiles = cloudProfiles(host);
  await profiles.save(name, profile);
  printResult(host, json, { profile: name, baseUrl: shownUrl(baseUrl), who: profile.keyId }, [
    `logged in to ${shownUrl(baseUrl)} as ${profile.keyId}`,
  ]);
  writeHint(host, `kept as profile "${name}" in ${profiles.path}`);
}

const NO_ORGANIZATION = { organizationId: undefined, organizationName: undefined };

function askedWho(): { readonly email: string; readonly apiKeyId: string } {
  const answer = canAsk() ? prompt("E-mail address, or id of a key:")?.trim() : undefined;
  if (answer) return answer.includes("@") ? { email: answer, apiKeyId: "" } : { email: "", apiKeyId: answer };
  throw new UsageError("found neither --email nor --api-key-id, and there is no terminal to ask on");
}

async function askSecret(host: Host, variable: string, question: string): Promise<Secret> {
  const found = host.env(variable) ||
    (canAsk() ? askHidden(host, question) : (await firstLine(new SystemClock()))?.trim());
  if (found) return new Secret(found);
  throw new SvcError("invalid_argument", `${variable} is missing, and nobody has given a secret`);
}

/** Throws if the control plane runs no commands for the person of the profile. */
async function requireCommands(host: Host, named: NamedProfile): Promise<void> {
  const remarks: string[] = [];
  const message = {
    command: "administrator list",
    words: [],
    flags: [{ name: "json", value: { case: "text" as const, value: "true" } }],
    files: [],
  };
  const output = { output: () => {}, remarks: (text: string) => void remarks.push(text), end: () => {} };
  const code = await sendOrder({ host, ...named }, { message, files: [] }, output).catch(async (error) => {
    if (named.profile.session) await endProfileSession(host, named.profile).catch(() => {});
    throw error;
  });
  if (code !== 0) {
    throw new SvcError("unavailable", remarks.join("").trim() || `the control plane answers with ${code}`);
  }
}

/** A control plane that does not answer keeps nobody from deleting a profile. */
export async function endSession(host: Host, name: string): Promise<void> {
  const file = cloudProfiles(host);
  const profile = chosen(await file.read(), name, file.path);
  if (!profile.session) return;
  await openWayOutAtTerminal(host, "svc-cloud");
  try {
    await endProfileSession(host, profile);
  } catch (error) {
    const remedy = "it lasts until it is ended there: svc-cloud account sign-out EMAIL";
    writeHint(host, `svc-cloud logout: the session is not ended (${chainOf(error)}); ${remedy}`);
  }
}

async function endProfileSession(host: Host, { baseUrl: address, key, caFile }: Profile): Promise<void> {
  await signOut({ address, ca: caFile ? await host.readTextFile(caFile) : undefined }, key);
}
