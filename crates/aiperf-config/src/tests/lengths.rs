//! Corpora and lengths: every form, from flags and from files.

use aiperf_core::plan::{
    CorpusPlan, DatasetPlan, LengthPlan, LengthShape, LengthsPlan, RandomStyle, SyntheticPlan, WindowPlan,
};
use serde_json::{Value as Json, json};

use super::{File, good, run_in, wrong};
use crate::Resolved;

fn dataset(resolved: Resolved) -> SyntheticPlan {
    match resolved.plan.dataset {
        DatasetPlan::Synthetic(dataset) => dataset,
        DatasetPlan::File(file) => panic!("{file:?}"),
    }
}

fn prompts_in(yaml: &str) -> Resolved {
    File::new(&format!("benchmark:\n  model: m\n  dataset:\n    prompts: {yaml}\n")).run("").expect("sound")
}

fn written(resolved: &Resolved) -> Json {
    resolved.plan.input_config["datasets"][0]["prompts"].clone()
}

#[test]
fn distributions_mean_the_same_in_flags_and_files() {
    for (json, yaml) in [
        (json!({"mean": 600.0, "median": 400.0}), "{isl: {type: lognormal, mean: 600, median: 400}}"),
        (
            json!({"mean": 500.0, "stddev": 50.0, "min": 400.0, "max": 600.0}),
            "{isl: {mean: 500, stddev: 50, min: 400, max: 600}}",
        ),
        (
            json!({"points": [{"value": 128.0, "weight": 3.0}, {"value": 4096.0, "weight": 1.0}]}),
            "{isl: {points: [{value: 128, weight: 3}, {value: 4096}]}}",
        ),
        (
            json!({"peaks": [{"distribution": {"mean": 100.0, "stddev": 10.0}, "weight": 60.0},
                {"distribution": {"mean": 900.0, "median": 800.0}, "weight": 40.0}]}),
            "{isl: {peaks: [{mean: 100, stddev: 10, weight: 60}, {distribution: {mean: 900, median: 800}, weight: 40}]}}",
        ),
    ] {
        let text = json.to_string();
        let by_flag = run_in(&["-m", "m", "--isl-distribution", &text], &[]).expect("sound");
        let by_file = prompts_in(yaml);
        assert_eq!(written(&by_flag)["isl"], json, "what counts is recorded");
        assert_eq!(dataset(by_flag), dataset(by_file), "{yaml}");
    }
    // A number, a plain normal and a fixed value are what --isl and --isl-stddev say.
    for yaml in [
        "{isl: 64}",
        "{isl: {value: 64, type: fixed}}",
        "{isl: {mean: 64, type: normal}}",
        "{isl: {mean: 64, min: null}}",
    ] {
        let LengthsPlan::Apart { isl, .. } = dataset(prompts_in(yaml)).lengths else { panic!("{yaml}") };
        assert_eq!(isl.shape, LengthShape::Normal { mean: 64.0, stddev: 0.0 }, "{yaml}");
    }
    let osl = dataset(prompts_in("{osl: {points: [{value: 5}]}}")).lengths;
    assert!(matches!(
        osl,
        LengthsPlan::Apart { osl: Some(LengthPlan { shape: LengthShape::Points(_), .. }), .. }
    ));
}

#[test]
fn a_higher_layer_says_a_length_in_its_own_form() {
    let file =
        File::new("benchmark: {model: m, dataset: {prompts: {isl: {mean: 600, median: 400}, osl: 7}}}");
    let plain = dataset(file.run("--isl 90").expect("sound"));
    let osl = Some(LengthPlan::normal(7.0, 0.0));
    assert_eq!(plain.lengths, LengthsPlan::Apart { isl: LengthPlan::normal(90.0, 0.0), osl });
    let path = file.path().display().to_string();
    let words = ["-f", &path, "--osl-distribution", "{\"mean\": 9, \"stddev\": 2}"];
    let LengthsPlan::Apart { osl, .. } = dataset(run_in(&words, &[]).expect("sound")).lengths else {
        panic!()
    };
    assert_eq!(osl, Some(LengthPlan::normal(9.0, 2.0)));
}

#[test]
fn pairs_take_the_place_of_both_lengths() {
    let by_flag = good("-m m --seq-dist 256|10,128:60;512,256:40 --isl 3");
    let Resolved { plan, notes, .. } = &by_flag;
    assert_eq!(*notes, ["--isl has no effect: --seq-dist gives both lengths"]);
    let recorded = &plan.input_config["datasets"][0]["prompts"]["sequence_distribution"];
    assert_eq!(
        recorded[0],
        json!({"isl": {"mean": 256.0, "stddev": 10.0}, "osl": {"mean": 128.0, "stddev": 0.0}, "probability": 60.0})
    );
    let by_flag = dataset(by_flag);
    let by_file = prompts_in(
        "{sequenceDistribution: [{isl: {mean: 256, stddev: 10}, osl: 128, probability: 60}, {isl: 512, osl: 256, probability: 40}]}",
    );
    assert_eq!(by_flag, dataset(by_file));
}

#[test]
fn range_ratios_make_windows() {
    let window = |isl_ratio, osl_ratio| WindowPlan { isl: 100, osl: 50, isl_ratio, osl_ratio };
    let one = good("-m m --isl 100 --osl 50 --random-range-ratio 0.3 --prompt-corpus random");
    assert_eq!(written(&one)["random_range_ratio"], "0.3");
    let one = dataset(one);
    assert_eq!(one.lengths, LengthsPlan::Window(window(0.3, 0.3)));
    assert_eq!((one.corpus, one.style), (CorpusPlan::Random, RandomStyle::Vllm));
    let two =
        prompts_in("{isl: 100, osl: 50, corpus: random, random_range_ratio: {input: 0.3, output: 0.5}}");
    assert_eq!(written(&two)["random_range_ratio"], r#"{"input":0.3,"output":0.5}"#);
    assert_eq!(dataset(two).lengths, LengthsPlan::Window(window(0.3, 0.5)));
    let strict = good(
        "-m m --isl 100 --osl 50 --random-range-ratio 1 --prompt-corpus random --random-corpus-style sglang-strict",
    );
    assert_eq!(dataset(strict).style, RandomStyle::SglangStrict);
    let any = good("-m m --isl 100 --osl 50 --random-range-ratio 1.0 --random-corpus-style sglang -b 4");
    let any = dataset(any);
    assert_eq!(
        (any.corpus, any.lengths, any.batch),
        (CorpusPlan::Sonnet, LengthsPlan::Window(window(1.0, 1.0)), 4)
    );
}

#[test]
fn contradictions_are_told() {
    for (line, expected) in [
        (
            "-m m --isl 10 --osl 5 --random-range-ratio 1",
            "--random-range-ratio: found '1'; allowed: a number from 0 and below 1 in style vllm",
        ),
        (
            "-m m --isl 10 --osl 5 --random-corpus-style sglang --random-range-ratio {\"input\":0.1,\"output\":0.2}",
            "--random-range-ratio: found two ratios, 0.1 and 0.2; allowed: one number for both lengths in style sglang",
        ),
        (
            "-m m --osl 5 --random-range-ratio 0.1",
            "--random-range-ratio needs --isl: it makes a window of that length",
        ),
        (
            "-m m --isl 5 --osl 0 --random-range-ratio 0.1",
            "--random-range-ratio needs --osl of at least 1: it makes a window of that length",
        ),
        (
            "-m m --isl 5 --osl 5 --isl-stddev 2 --random-range-ratio 0.1",
            "--random-range-ratio and --isl-stddev exclude each other: both say how lengths spread; keep one",
        ),
        (
            "-m m --isl 5 --osl 5 --seq-dist 1,2:100 --random-range-ratio 0.1",
            "--seq-dist and --random-range-ratio exclude each other: both say how lengths spread; keep one",
        ),
        (
            "-m m --isl 5 --isl-distribution {\"mean\":5,\"median\":4}",
            "--isl-distribution and --isl exclude each other: both say the input length; keep one",
        ),
        (
            "-m m --osl-stddev 5 --osl-distribution {\"mean\":5,\"median\":4}",
            "--osl-distribution and --osl-stddev exclude each other: the distribution has its own spread; keep one",
        ),
        (
            "-m m --prompt-corpus random --random-corpus-style sglang-strict",
            "--random-corpus-style needs --random-range-ratio: SGLang's own prompts are drawn from it; 1 keeps every length at its \
             mean",
        ),
        (
            "-m m --random-corpus-style sglang",
            "--random-corpus-style needs --prompt-corpus random or --random-range-ratio: nothing else has a style",
        ),
        ("-m m --batch-size 0", "--batch-size: found '0'; allowed: a whole number from 1 to 100000"),
        (
            "-m m --prompt-corpus sonet",
            "--prompt-corpus: found 'sonet'; allowed: sonnet, coding, random; did you mean 'sonnet'?",
        ),
    ] {
        let errors = wrong(line);
        assert_eq!(errors, [expected], "{line}");
    }
}

#[test]
fn a_wrong_distribution_in_a_file_is_told_with_its_line() {
    let file = File::new(
        "benchmark:\n  model: m\n  dataset:\n    prompts:\n      isl: {mean: 5, median: 9}\n      osl: {peaks: [1]}\n",
    );
    assert_eq!(
        file.wrong(""),
        [
            "c.yaml:5:12: benchmark.dataset.prompts.isl: found a median of 9 with a mean of 5; allowed: a median that is at most the \
             mean: a log-normal distribution leans to long lengths",
            "c.yaml:6:12: benchmark.dataset.prompts.osl: found peaks: '[1]'; allowed: a list of at least 2 items",
        ]
    );
}

#[test]
fn prompts_of_a_file_have_no_corpus() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().display();
    for more in ["--seq-dist 1,2:100", "--batch-size 2", "--random-corpus-style vllm", "--isl-distribution 5"]
    {
        let errors = wrong(&format!("-m m --input-file {path} {more}"));
        assert!(
            errors.len() == 1
                && errors[0].contains("and --input-file exclude each other: the prompts of a file"),
            "{errors:?}"
        );
    }
    let plan = good(&format!("-m m --input-file {path} --osl-distribution {{\"mean\":9,\"median\":5}}")).plan;
    let DatasetPlan::File(set) = plan.dataset else { panic!("a file") };
    assert!(matches!(set.osl, Some(LengthPlan { shape: LengthShape::LogNormal { .. }, .. })));
}
