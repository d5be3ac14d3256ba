/** The names of the services of published APIs, by which cards call what every resource has. */

/** Names of services that do not follow from the name of the API. */
const SERVICES: { readonly [api: string]: string } = {
  "rdk:service:mlmodel": "viam.service.mlmodel.v1.MLModelService",
  "rdk:service:slam": "viam.service.slam.v1.SLAMService",
  "rdk:service:base_remote_control": "svc.service.baseremotecontrol.v1.BaseRemoteControlService",
  "rdk:service:data_manager": "viam.service.datamanager.v1.DataManagerService",
};

/** The service of a published API. */
export function serviceName(api: string): string {
  const [, kind, type = ""] = api.split(":");
  const words = type.split("_");
  const pascal = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  return SERVICES[api] ?? `viam.${kind}.${words.join("")}.v1.${pascal}Service`;
}
