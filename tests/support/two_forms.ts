/**
 * Messages that the published TypeScript and Python libraries declare with different fields under one name. `proto/`
 * declares them without fields, because the machine only forwards them.
 */
export const TWO_FORMS = ["Waypoint", "GetLocationResponse", "GetPropertiesResponse"].map((name) =>
  `viam.service.navigation.v1.${name}`
);
