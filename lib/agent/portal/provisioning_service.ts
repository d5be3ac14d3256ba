/**
 * The published service with which an app sets up a device: `viam.provisioning.v1.ProvisioningService`, without TLS and
 * without keys, for clients in the hotspot.
 *
 * The Set calls store values; ExitProvisioning submits them. Apps repeat the Get calls by themselves, with nobody before
 * them.
 */

import { SvcError } from "../../base/error.ts";
import { ProvisioningService } from "../../../proto/gen/provisioning_pb.ts";
import { service } from "../../wire/rpc/service.ts";
import type { DeviceView, ProvisioningSubmissions, SeenNetwork } from "./submissions.ts";

export function provisioningHandlers(submissions: ProvisioningSubmissions) {
  return service(ProvisioningService, {
    getSmartMachineStatus() {
      submissions.looked();
      const device: DeviceView = submissions.device();
      return {
        provisioningInfo: {
          fragmentId: device.fragmentId,
          model: device.model,
          manufacturer: device.manufacturer,
        },
        hasSmartMachineCredentials: device.configured,
        isOnline: device.online,
        latestConnectionAttempt: device.lastTried && infoOf(device.lastTried),
        errors: [...submissions.errors()],
        agentVersion: device.agentVersion,
      };
    },

    setNetworkCredentials({ type, ssid, psk }) {
      if (type !== WIFI) {
        throw new SvcError("invalid_argument", `found a network of type "${type}", wanted "${WIFI}"`);
      }
      submissions.network(ssid, psk);
      return {};
    },

    setSmartMachineCredentials({ cloud }) {
      if (!cloud) throw new SvcError("invalid_argument", "found no cloud, wanted the machine's credentials");
      const { id, secret, appAddress, apiKey } = cloud;
      submissions.credentials(JSON.stringify({
        cloud: {
          id,
          app_address: appAddress,
          ...secret === "" ? {} : { secret },
          ...apiKey ? { api_key: { id: apiKey.id, key: apiKey.key } } : {},
        },
      }));
      return {};
    },

    getNetworkList() {
      submissions.looked();
      return { networks: submissions.device().networks.map(infoOf) };
    },

    exitProvisioning() {
      submissions.submit();
      return {};
    },
  });
}

const WIFI = "wifi";

function infoOf({ ssid, security, signal, connected, lastError }: SeenNetwork) {
  return { type: WIFI, ssid, security, signal: Math.round(signal), connected, lastError };
}
