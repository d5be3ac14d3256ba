/** The connection of a profile to its control plane. */

import { SystemClock } from "../../../lib/base/clock.ts";
import type { ReadFiles } from "../../../lib/base/files/files.ts";
import { connectApp } from "../../../lib/cloud_client/app_channel.ts";
import type { Profile } from "../../../lib/cloud_client/profile.ts";
import type { Channel } from "../../../lib/wire/rpc/channel.ts";
import { fetchToken } from "./person_session.ts";

export async function openChannel(
  { baseUrl: address, keyId, key, session, allowInsecureCreds, caFile }: Profile,
  host: Pick<ReadFiles, "readTextFile">,
): Promise<Channel> {
  const ca = caFile ? await host.readTextFile(caFile) : undefined;
  return connectApp({
    address,
    keyId,
    key,
    ...session ? { issue: () => fetchToken({ address, ca }, key) } : {},
    allowInsecureCredentials: allowInsecureCreds,
    ca,
    clock: new SystemClock(),
  });
}
