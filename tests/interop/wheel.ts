/** The machine that foreign clients dial: a motor with its encoder, with or without a key. */

/** An API key of the machine. */
export const KEY = { id: "6f1a55d4-0f38-4a43-8d1e-3a3ed3fda7ba", key: "sesame" };

export const components = [
  { name: "pulses", api: "rdk:component:encoder", model: "fake", attributes: { update_rate_msec: 10 } },
  {
    name: "wheel",
    api: "rdk:component:motor",
    model: "fake",
    attributes: { encoder: "pulses", max_rpm: 100, ticks_per_rotation: 100 },
  },
];

/** Lets only the key in. */
export const auth = { handlers: [{ type: "api-key", config: { [KEY.id]: KEY.key, keys: [KEY.id] } }] };
