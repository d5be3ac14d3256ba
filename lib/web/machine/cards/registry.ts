/**
 * Which card shows a resource. The folders are the registry: `component/motor.svelte` is the card of
 * `rdk:component:motor`. A card is loaded when it is first shown. Other APIs get the card of reflection.
 */

import type { Component } from "svelte";

type CardModule = { readonly default: Component };

const CARDS = import.meta.glob<CardModule>(["./component/*.svelte", "./service/*.svelte"]);

/** Loads the card of an API, `rdk:component:motor`. */
export async function loadCard(api: string): Promise<Component> {
  const [namespace, type, subtype] = api.split(":");
  const load = namespace === "rdk" ? CARDS[`./${type}/${subtype}.svelte`] : undefined;
  return (await (load ?? (() => import("./reflected.svelte")))()).default;
}
