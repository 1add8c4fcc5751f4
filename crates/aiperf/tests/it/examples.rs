//! The files and commands of docs/formats.md, run as they stand there.

use crate::support::Run;

const PAGE: &str = include_str!("../../../../docs/formats.md");

/// A section of the page: a file, the command that sends it, a broken one and what is said of that.
struct Example {
    form: String,
    file: String,
    good: String,
    args: Vec<String>,
    broken: String,
    message: String,
}

/// The words of a command line, without the quotes around some.
fn words(command: &str) -> Vec<String> {
    command.replace("\\\n", " ").split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
}

fn examples() -> Vec<Example> {
    let sections = PAGE.split("\n## ").skip(1);
    sections
        .map(|section| {
            let form = section.lines().next().expect("a title").trim_matches('`').to_owned();
            let mut blocks = section.split("```").skip(1).step_by(2).map(|block| {
                let (_, text) = block.split_once('\n').expect("a kind of block");
                text.to_owned()
            });
            let mut next = || blocks.next().unwrap_or_else(|| panic!("{form} lacks a block"));
            let (good, command, broken, message) = (next(), next(), next(), next());
            let args = words(&command);
            let at = args.iter().position(|word| word == "--input-file").expect("a file") + 1;
            Example { file: args[at].clone(), form, good, args, broken, message }
        })
        .collect()
}

#[test]
fn a_file_of_each_form_is_sent_and_a_broken_one_is_told() {
    let examples = examples();
    let forms: Vec<&str> = examples.iter().map(|example| example.form.as_str()).collect();
    let all = [
        "single_turn",
        "multi_turn",
        "random_pool",
        "mooncake_trace",
        "bailian_trace",
        "burst_gpt_trace",
        "baseten_trace",
        "sagemaker_data_capture",
        "raw_payload",
        "inputs_json",
        "sharegpt",
        "chat",
    ];
    assert_eq!(forms, all);
    for Example { form, file, good, args, broken, message } in examples {
        assert_eq!(args[0], "aiperf");
        let run = |text: &str| {
            let run = Run::new("").file(&file, text);
            args[1..]
                .iter()
                .fold(run, |run, arg| run.arg(arg.as_str()))
                .args("--ui none --artifact-dir out")
                .run()
        };
        let done = run(&good).expect_exit(0);
        assert!(!done.records().is_empty() && done.records().iter().all(|r| r["error"].is_null()), "{form}");
        let told = run(&broken).expect_exit(2);
        assert!(told.stderr.contains(message.trim_end()), "{form}: {}", told.stderr);
        assert!(!told.path("").exists(), "{form}: something was written");
    }
}
