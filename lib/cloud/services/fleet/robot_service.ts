/**
 * RobotService: the calls of machines. Configuration, certificate, restart orders and logs.
 */

import { type AgentInfo, RobotService } from "../../../../proto/gen/robot_config_pb.ts";
import { toDuration } from "../../../api/shared/time.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import type { Authority } from "../../store/secrets/authority.ts";
import type { ConfigMessages } from "../../config/config_messages.ts";
import type { CloudContext } from "../../access/context.ts";
import type { SharedCredentials } from "../../fleet/shared_credentials.ts";
import { Parts } from "../../tenants/parts.ts";
import type { LogStore } from "../../logs/logs.ts";
import { partNames } from "../../tenants/hosts.ts";

/** Interval of polls for restart orders. */
const RESTART_CHECK_MS = 5_000;
const LOCALHOST = ["localhost", "127.0.0.1"];

export function robotHandlers(
  cloud: CloudContext,
  authority: Authority,
  logs: LogStore,
  messages: ConfigMessages,
  devices: SharedCredentials,
) {
  const { store, access, presence, clock } = cloud;
  // Each machine makes these calls every few seconds.
  const { method } = RobotService;
  const configOf = access.readEarly(method.config, ({ id }) => messages.look(id));
  const isRestartOrdered = access.readEarly(
    method.needsRestart,
    ({ id }) => new Parts(store).restartOrdered(id),
  );
  return {
    async config({ id, agentInfo }, ctx) {
      const admission = access.admissionOf(ctx);
      const isMachine = admission.has("machine");
      if (isMachine) {
        presence.saw(id, agentInfo && reportOf(agentInfo));
        devices.sawRequest({ id, organizationId: admission.organizationId }, ctx);
      }
      return await messages.forCaller(await configOf(ctx), { entity: ctx.entity, isMachine });
    },
    async certificate({ id }) {
      const { fqdn, localFqdn } = partNames(await new Parts(store).get(id), cloud.machineDomain);
      const { certificate, privateKey } = await authority.ofPart(id, [
        fqdn,
        localFqdn,
        // With localhost in the certificate, the holder of the private key could impersonate any server on
        // the computer of a client that trusts the authority.
        ...(cloud.localhostCertificates ? LOCALHOST : []),
      ]);
      return { id, tlsCertificate: certificate, tlsPrivateKey: privateKey };
    },
    async needsRestart({ id }, ctx) {
      presence.saw(id);
      const mustRestart = await isRestartOrdered(ctx) &&
        await store.transaction((sql) => new Parts(sql).takeRestart(id));
      return { id, mustRestart, restartCheckInterval: toDuration(RESTART_CHECK_MS) };
    },
    async log({ id, logs: entries }, ctx) {
      presence.saw(id);
      const { organizationId } = access.admissionOf(ctx);
      await logs.add({ id, organizationId }, entries, clock.nowMs());
      return {};
    },
  } satisfies ServiceImpl<typeof RobotService>;
}
/** A machine's report about itself, in its stored form. */
function reportOf({ host, os, ips, version, gitRevision, platform }: AgentInfo) {
  return { host, os, ips, version, git_revision: gitRevision, platform: platform ?? "" };
}
