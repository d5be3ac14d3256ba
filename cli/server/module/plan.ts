/** What a new module is to be. */

export interface ModulePlan {
  readonly name: string;
  /** The public name of the organization that shares it. */
  readonly namespace: string;
  /** `rdk:component:motor` */
  readonly api: string;
  /** The last word of the model's name. */
  readonly model: string;
  /** The extension of its language's files. */
  readonly extension: string;
}

/** The full name of the model. */
export function modelName({ namespace, name, model }: ModulePlan): string {
  return `${namespace}:${name}:${model}`;
}

/** The last word of the API: `motor`. */
export function kindOfPlan({ api }: ModulePlan): string {
  return api.split(":").at(-1)!;
}

/** Whether the model is the example that reads a number, which works as it is. */
export function isExample({ api }: ModulePlan): boolean {
  return api === "rdk:component:sensor";
}
