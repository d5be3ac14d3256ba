/** The specification of the ML training client. */

import { holds, type Section } from "./row.ts";

const TRAINING = "tests/cloud/training_test.ts: ";
const CLIENT = "lib/cloud_client/training_client_test.ts: ";
const REQUEST = "lib/cloud_client/training_request_test.ts: ";
const BOTH = CLIENT + "the published operations are there in both styles of names, and mean the same";

export const TRAINING_SECTIONS: readonly Section[] = [
  {
    title: "ML training",
    rows: [
      holds(
        "Jobs are submitted, inspected, listed, cancelled and deleted from Python and TypeScript.",
        ["tests/cloud/training_interop_test.ts: training with the published Python SDK", BOTH],
        "beyond: `svc-ml`, and a library for TypeScript",
      ),
      holds("Parameters have names with underscores, and camelCase ones in TypeScript.", BOTH),
      holds(
        "`MODEL_TYPE_SINGLE_LABEL_CLASSIFICATION`, `MODEL_TYPE_MULTI_LABEL_CLASSIFICATION`, `MODEL_TYPE_OBJECT_DETECTION`, and without the prefix.",
        [
          CLIENT + "names of types, frameworks and statuses are read in every published spelling",
          "tests/ml/jobs_test.ts: submit takes a model type in every spelling, and labels in several",
          "tests/cloud/executor_test.ts: embedded: ${modelType} leaves a model, its labels and what is to be known of it",
        ],
      ),
      holds(
        "`model_version` is unique among the versions of a model.",
        TRAINING + "a version of a model is made once: of jobs at the same time, one is taken",
      ),
      holds(
        "`SubmitTrainingJob`: `org_id`, `dataset_id`, `model_name`, `model_version`, `model_type`, `tags`; gives the job's ID.",
        [
          TRAINING + "a job from its submission to its model",
          TRAINING + "what cannot be trained is refused, and the refusal says why",
          REQUEST + "one label is enough where there is something else to tell it from",
          TRAINING +
          "how a model is to be learned is kept with its job, within bounds, and shown where somebody has said it",
        ],
        "errors name parameters as the published request does. Beyond: `epochs`, `seed` and `holdout_percent` of a job, " +
          "which travel to svc-cloud alone (`svc-ml submit --epochs --seed --holdout`)",
      ),
      holds(
        "`SubmitCustomTrainingJob`: with `registry_item_id` and `registry_item_version`.",
        TRAINING + "a custom job: its script, its arguments and a key for as long as it runs",
      ),
      holds(
        "`GetTrainingJob`: by `id`, gives its metadata.",
        [
          TRAINING + "a job from its submission to its model",
          "tests/ml/models_test.ts: of a classifier, what it takes for what is told with its job and in the list of models",
        ],
        "beyond: `svc-ml get` tells how good the model is, of a classifier what it takes for what",
      ),
      holds(
        "`ListTrainingJobs`: of `org_id`, all or those of a status.",
        [BOTH, TRAINING + "jobs run in their order, as many at once as there is room for"],
      ),
      holds(
        "`TrainingStatus` has `RUNNING`.",
        CLIENT + "names of types, frameworks and statuses are read in every published spelling",
        "in the library it is another name of `IN_PROGRESS`, which is its name on the wire, as published",
      ),
      holds(
        "`CancelTrainingJob`: by `id`.",
        TRAINING + "cancelling: while it waits, while it runs, twice, and too late",
      ),
      holds(
        "`DeleteCompletedTrainingJob`: by `id`, whether it succeeded or failed.",
        TRAINING + "a job from its submission to its model",
      ),
      holds(
        "Owners of the organization alone may do so.",
        "tests/cloud/access_test.ts: training is for owners of the organization: an operator, or an owner of less, is refused",
        "the list of containers, of which the specification does not tell, is for every key",
      ),
    ],
  },
];
