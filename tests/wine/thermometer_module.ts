/** A module of one model, to be compiled for Windows. */

import { model, object, SensorApi, serveModule } from "../../lib/module/mod.ts";

await serveModule([
  model({
    api: SensorApi,
    name: "test:wine:thermometer",
    attributes: object({}),
    construct: () => ({ getReadings: () => Promise.resolve({ celsius: 20 }) }),
  }),
]);
